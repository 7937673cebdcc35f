"""A plugin for gateways in processes of their own: `install` puts one into a folder, as a package would be."""

from __future__ import annotations

import os
from pathlib import Path


def install(folder: Path, source: str, name: str = "planted") -> dict[str, str]:
    """Makes the module a plugin; returns the environment in which a gateway finds it."""
    home = folder / "plugin"
    facts = home / f"{name}-1.0.dist-info"
    facts.mkdir(parents=True)
    (home / f"{name}.py").write_text(source)
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(f"[tidegate]\n{name} = {name}\n")
    return {"PYTHONPATH": os.pathsep.join([str(home), *filter(None, [os.environ.get("PYTHONPATH")])])}
