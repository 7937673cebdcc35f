"""The build hook that compiles the hot modules with mypyc. It does nothing unless `TIDEGATE_COMPILE=1` is set.

The modules are listed in pyproject.toml, `[tool.tidegate.compile]`. What the compiler writes goes to a temporary folder
and from there into the wheel, never into the source tree: an import from the tree finds the sources, and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

GROUP = "tidegate"
"""The compiled code is in one library, `tidegate__mypyc`; each module has a small one beside its source."""


def wanted() -> bool:
    """Whether the build is to compile."""
    return os.environ.get("TIDEGATE_COMPILE", "") not in ("", "0")


def sources(root: Path) -> dict[str, str]:
    """The file of each listed module, by the module's name; a path below the root. Raises `FileNotFoundError`."""
    settings = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["tidegate"]["compile"]
    found = {}
    for module in settings["modules"]:
        file = f"{module.replace('.', '/')}.py"
        paths = [path for path in (root / file, *root.glob(f"plugins/*/{file}")) if path.exists()]
        if not paths:
            raise FileNotFoundError(f"pyproject.toml, [tool.tidegate.compile]: there is no module {module}")
        found[module] = paths[0].relative_to(root).as_posix()
    return found


def compiled(root: Path, folder: Path, *, opt_level: str = "3") -> list[Path]:
    """Compiles the listed modules into `folder` and returns the libraries, whose paths below `folder/lib` are those in
    the wheel. Exits with the compiler's messages if it can't."""
    from mypyc.build import mypycify  # after setuptools, which it looks for
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    with contextlib.chdir(root):
        extensions = mypycify(
            list(sources(root).values()),
            group_name=GROUP,
            target_dir=str(folder / "c"),
            opt_level=opt_level,
            debug_level="0",
            multi_file=True,  # one C file takes the compiler gigabytes, and one core only
        )
        for extension in extensions:
            extension.extra_compile_args.append("-Wno-error")  # another compiler warns of other things
        command = build_ext(Distribution({"name": GROUP, "ext_modules": extensions}))
        command.build_lib = str(folder / "lib")
        command.build_temp = str(folder / "objects")
        command.parallel = True
        command.ensure_finalized()
        command.run()
    return sorted(p for p in (folder / "lib").rglob("*") if p.is_file())


class CompileHook(BuildHookInterface[BuilderConfig]):
    """See the module. An editable install has no compiled code: it would keep running when its source has changed."""

    def dependencies(self) -> list[str]:
        """The compiler, and the libraries that the modules import: it reads their types."""
        if not wanted():
            return []
        core = self.metadata.core
        libraries = core.optional_dependencies["kafka-confluent"]  # those of `kafka`, too
        return ["mypy>=2.4,<2.5", "setuptools>=77", *core.dependencies, *libraries]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds the compiled modules to the wheel."""
        if not wanted() or version == "editable":
            return
        self._folder = Path(tempfile.mkdtemp(prefix="tidegate-compile-"))
        for library in compiled(Path(self.root), self._folder):
            build_data["force_include"][str(library)] = library.relative_to(self._folder / "lib").as_posix()
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Removes what the compiler wrote."""
        if hasattr(self, "_folder"):
            shutil.rmtree(self._folder)
