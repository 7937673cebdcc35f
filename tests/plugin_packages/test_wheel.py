"""What `tidegate plugin check` finds in a package and in its wheel."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from gateway_plugins import project, wheel
from gateway_plugins.new import Kind, write
from gateway_plugins.project import Project

METADATA = "Metadata-Version: 2.4\nName: tidegate-loud\nVersion: 0.1.0\n\nA page.\n"
POINTS = "[tidegate]\nloud = tidegate_loud.plugin\n"
GOOD = {
    "tidegate_loud/__init__.py": "",
    "tidegate_loud/plugin.py": "",
    "tidegate_loud/py.typed": "",
    "tidegate_loud-0.1.0.dist-info/METADATA": METADATA,
    "tidegate_loud-0.1.0.dist-info/entry_points.txt": POINTS,
}


@pytest.fixture
def package(tmp_path: Path) -> Project:
    found = project.read(write(Kind.filter, "loud", tmp_path / "loud"))
    assert found is not None
    return found


def looked(package: Project, **changes: str | None) -> tuple[list[str], list[str]]:
    file = package.folder.parent / "tidegate_loud-0.1.0-py3-none-any.whl"
    files = {**GOOD, **changes}
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in files.items():
            if text is not None:
                archive.writestr(name, text)
    step = wheel.look_at(file, package)
    return step.failures, step.warnings


def test_a_good_wheel(package: Project) -> None:
    assert looked(package) == ([], [])


@pytest.mark.spec("PD-03")
@pytest.mark.parametrize(
    ("changes", "failure"),
    [
        ({"tests/__init__.py": ""}, "it installs a top-level folder 'tests'"),
        ({"tidegate_loud/__pycache__/plugin.cpython-311.pyc": ""}, "a stray file: tidegate_loud/__pycache__"),
        ({"tidegate_loud/plugin.py": None}, "the module tidegate_loud.plugin of the entry point loud is not in it"),
        ({"tidegate_loud-0.1.0.dist-info/entry_points.txt": None}, "its entry points are missing"),
        ({"tidegate_loud/__init__.py": None}, "'tidegate_loud' is not a package"),
        ({name: None for name in GOOD if not name.startswith("tidegate_loud-")}, "it is empty"),
    ],
    ids=["tests", "stray", "no module", "no entry point", "no package", "empty"],
)
def test_what_does_not_belong_there_is_named(package: Project, changes: dict[str, str | None], failure: str) -> None:
    assert any(text.startswith(failure) for text in looked(package, **changes)[0])


def test_missing_types_are_a_warning(package: Project) -> None:
    assert looked(package, **{"tidegate_loud/py.typed": None}) == (
        [],
        ["tidegate_loud has no py.typed: type checkers ignore its annotations"],
    )


@pytest.mark.spec("PD-03")
def test_a_package_that_nobody_finds(tmp_path: Path) -> None:
    assert project.read(tmp_path) is None
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "1"\ndependencies = ["tide-gate"]\n')
    found = project.read(tmp_path)
    assert found is not None
    step = project.look_at(found)
    assert step.failures == [
        "pyproject.toml has no entry point in [project.entry-points.tidegate]: nobody finds it",
        "its dependencies do not name tidegate",
    ]
    assert [text.partition(":")[0] for text in step.warnings] == [
        "it has no description",
        "it does not say requires-python; Tidegate needs 3.11 or newer",
        "it has no license",
    ]
