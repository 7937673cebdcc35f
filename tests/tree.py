"""Where the packages are: the core, the groups of plugins, and what people use who try, test and build."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
CORE = ROOT / "gateway_core"
GROUPS = {folder.name: folder for folder in sorted((ROOT / "plugins").iterdir()) if folder.is_dir()}
"""What a plugin is for ("transports", "storage", …), and the folder of its siblings."""
DEV = ROOT / "dev"
PLUGINS = {
    file.parent.name: file.parent
    for folder in (*GROUPS.values(), DEV)
    for file in sorted(folder.glob("gateway_*/__init__.py"))
}
"""The folder of each package that is no part of the core, by its name; `dev` included."""
SHIPPED = {name: folder for name, folder in PLUGINS.items() if folder.parent != DEV}
"""Those in the wheel `tidegate`."""


def module_path(file: Path) -> Path:
    """A file's path below the folder that Python imports its package from ("gateway_http/pool.py")."""
    folder = next((top for top in (*GROUPS.values(), DEV, ROOT) if file.is_relative_to(top)), ROOT)
    return file.relative_to(folder)


def entry_points() -> dict[str, str]:
    """The entry points of all plugins of the tree, by name."""
    projects = [tomllib.loads((top / "pyproject.toml").read_text(encoding="utf-8")) for top in (ROOT, DEV)]
    return {name: value for each in projects for name, value in each["project"]["entry-points"]["tidegate"].items()}
