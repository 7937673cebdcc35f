"""Plugins for gateways in processes of their own: `install` adds one, as a package would; `leave_out` removes some."""

from __future__ import annotations

import os
from importlib.metadata import distribution
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


def leave_out(folder: Path, *plugins: str) -> dict[str, str]:
    """An installation of Tidegate without these plugins: neither their entry points nor their packages are there.
    Returns its environment."""
    own = distribution("tidegate")
    facts = folder / "without" / f"tidegate-{own.version}.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: tidegate\nVersion: {own.version}\n")
    kept = [f"{p.name} = {p.value}" for p in own.entry_points.select(group="tidegate") if p.name not in plugins]
    (facts / "entry_points.txt").write_text("\n".join(["[tidegate]", *kept]) + "\n")
    for name in plugins:
        package = f"gateway_{name}"
        text = f"raise ModuleNotFoundError('no module named {package}', name='{package}')\n"
        (facts.parent / f"{package}.py").write_text(text)
    return {"PYTHONPATH": os.pathsep.join([str(facts.parent), *filter(None, [os.environ.get("PYTHONPATH")])])}
