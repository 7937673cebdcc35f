"""The compiled build (docs/howto/compiled-build.md): asked for, only in wheels, and made of what is listed."""

from __future__ import annotations

import ast
import importlib
import importlib.machinery
import inspect
import os
import pkgutil
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.tree import CORE, PLUGINS

ROOT = Path(__file__).parents[2]
MODULES: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["tidegate"]["compile"]["modules"]
_INTERPRETED_SUITE = "gateway_testing"  # imports pytest, and no part of a gateway
COREUTILS = "basename cat cp date dirname env head id ls mkdir mktemp mv nproc rm sleep sort tail touch tr uname wc"
_OTHERS = (tuple,)  # mypyc compiles a NamedTuple to an ordinary class


def hook() -> Any:
    spec = importlib.util.spec_from_file_location("compile_hook", ROOT / "tools" / "compile_hook.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def libraries(folder: Path) -> list[Path]:
    return [p for p in folder.rglob("*") if p.suffix in (".so", ".pyd")]


@pytest.mark.spec("COMP-02")
def test_the_tree_holds_nothing_compiled() -> None:
    """A compiled file beside a source would be imported in its place, even when the source has changed."""
    assert [*libraries(ROOT / "gateway_core"), *libraries(ROOT / "plugins"), *libraries(ROOT / "dev")] == []
    assert list(ROOT.glob("*.so")) == []


@pytest.mark.spec("COMP-02")
@pytest.mark.parametrize(("wanted", "version"), [("1", "editable"), ("0", "standard"), (None, "standard")])
def test_an_editable_install_and_one_that_does_not_ask_are_pure(
    monkeypatch: pytest.MonkeyPatch, wanted: str | None, version: str
) -> None:
    monkeypatch.delenv("TIDEGATE_COMPILE", raising=False)
    if wanted is not None:
        monkeypatch.setenv("TIDEGATE_COMPILE", wanted)
    made = hook().CompileHook(str(ROOT), {}, None, None, str(ROOT / "dist"), "wheel")
    data: dict[str, Any] = {"force_include": {}}
    made.initialize(version, data)
    made.finalize(version, data, "")
    assert data == {"force_include": {}}
    if wanted != "1":
        assert made.dependencies() == []


@pytest.mark.spec("COMP-01")
def test_every_listed_module_is_there_once() -> None:
    assert sorted(set(MODULES)) == MODULES
    assert set(hook().sources(ROOT)) == set(MODULES)


@pytest.mark.slow
@pytest.mark.spec("COMP-01")
def test_no_interpreted_class_derives_from_a_compiled_one() -> None:
    """Python refuses to make an instance of such a class."""
    derived = [
        f"{cls.__module__}.{cls.__qualname__} derives from {base.__module__}.{base.__qualname__}"
        for module in _all_modules()
        for _, cls in inspect.getmembers(module, inspect.isclass)
        if cls.__module__ == module.__name__ and cls.__module__ not in MODULES
        for base in cls.__mro__[1:]
        if base.__module__ in MODULES and not issubclass(base, _OTHERS) and not getattr(base, "_is_protocol", False)
    ]
    assert derived == []


@pytest.mark.spec("COMP-01")
@pytest.mark.parametrize("name", MODULES)
def test_no_compiled_class_derives_from_one_that_the_compiler_does_not_know(name: str) -> None:
    """To mypyc the class of an untyped library is `Any`; it would put fields of an object over those of the base."""
    ours = ("gateway_", "tidegate")
    unknown = [
        f"{cls.__qualname__} derives from {base.__module__}.{base.__qualname__}"
        for _, cls in inspect.getmembers(importlib.import_module(name), inspect.isclass)
        if cls.__module__ == name
        for base in cls.__mro__[1:]
        if not base.__module__.startswith(ours) and base.__module__.split(".")[0] not in sys.stdlib_module_names
    ]
    assert unknown == []


def _all_modules() -> Iterator[ModuleType]:
    """The modules of this tree that import one of the listed ones."""
    for folder in (CORE, *PLUGINS.values()):
        package = folder.name
        if package == _INTERPRETED_SUITE:
            continue
        for found in pkgutil.walk_packages([str(folder)], f"{package}."):
            path = folder.joinpath(*found.name.split(".")[1:])
            file = path / "__init__.py" if found.ispkg else path.with_suffix(".py")
            if found.name not in MODULES and _has_subclasses(file):
                yield importlib.import_module(found.name)


def _has_subclasses(file: Path) -> bool:
    names = {name.rpartition(".")[2] for name in MODULES}
    tree = ast.parse(file.read_text())
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if (node.module or "").rpartition(".")[2] in names or alias.name in names
    }
    bases = [base for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for base in node.bases]
    return any(ast.unparse(base).split(".")[0].split("[")[0] in imported for base in bases)


@pytest.mark.area(name="packaging")
@pytest.mark.spec("COMP-02")
@pytest.mark.usefixtures("processes")
def test_what_is_compiled_lies_elsewhere_and_runs(tmp_path: Path) -> None:
    tree, out = tmp_path / "tree", tmp_path / "out"
    small = tree / "plugins" / "lib" / "small"
    small.mkdir(parents=True)
    (small / "__init__.py").write_text("")
    (small / "count.py").write_text("def twice(number: int) -> int:\n    return 2 * number\n")
    (tree / "pyproject.toml").write_text(
        '[tool.mypy]\nmypy_path = "plugins/lib"\nexplicit_package_bases = true\n'
        '[tool.tidegate.compile]\nmodules = ["small.count"]\n'
    )
    before = sorted(tree.rglob("*"))
    code = "import sys; sys.path.insert(0, sys.argv[1]); import compile_hook; from pathlib import Path\n"
    code += "compile_hook.compiled(Path(sys.argv[2]), Path(sys.argv[3]), opt_level='0')"
    run(sys.executable, "-c", code, ROOT / "tools", tree, out, cwd=tmp_path)
    assert [p for p in sorted(tree.rglob("*")) if ".mypy_cache" not in p.parts] == before
    (out / "lib" / "small" / "__init__.py").write_text("")
    said = run(
        *(sys.executable, "-c", "import small.count; print(small.count.__file__, small.count.twice(21))"),
        cwd=out / "lib",
    ).split()
    assert said[0].endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES))
    assert said[1] == "42"


@pytest.mark.area(name="packaging")
@pytest.mark.spec("COMP-02")
@pytest.mark.usefixtures("processes")
def test_a_build_that_does_not_ask_needs_no_compiler_and_takes_nothing_compiled(tmp_path: Path) -> None:
    """Not even if something compiled lies in the tree, which is stale sooner or later."""
    tree, variables = tmp_path / "tree", without_a_compiler(tmp_path)
    for folder in ("gateway_core", "plugins", "configs", "tools"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, tree)
    suffix = importlib.machinery.EXTENSION_SUFFIXES[0]
    for stale in ("gateway_core/contract/event", "plugins/transports/gateway_http/protocol", "tidegate__mypyc"):
        (tree / f"{stale}{suffix}").write_bytes(b"compiled long ago")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "-q", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--no-build-isolation", "-w", tmp_path, tree], env=variables, check=True)
    (wheel,) = tmp_path.glob("tidegate-*.whl")
    assert wheel.name.endswith("-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "gateway_core/contract/event.py" in names
    assert [name for name in names if name.endswith((".so", ".pyd"))] == []


def without_a_compiler(folder: Path) -> dict[str, str]:
    """The environment variables of a machine with only coreutils on PATH and an empty home, both made in the folder."""
    programs, home = folder / "programs", folder / "home"
    for made in (programs, home):
        made.mkdir()
    for name in COREUTILS.split():
        (programs / name).symlink_to(shutil.which(name) or pytest.fail(f"this machine has no {name}"))
    return {"PATH": str(programs), "HOME": str(home), "LANG": "C.UTF-8"}


def run(*command: object, cwd: Path, **more: str) -> str:
    """Standard output of a command, which must succeed."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV", "TIDEGATE_"))} | more
    done = subprocess.run([str(c) for c in command], cwd=cwd, env=env, capture_output=True, text=True, timeout=3000)
    assert done.returncode == 0, f"{command}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
