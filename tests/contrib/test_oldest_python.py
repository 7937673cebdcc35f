"""The oldest Python that is allowed is one, everywhere, and nothing needs a newer one without a word.

What CPython fixed between 3.11.2 and 3.11.5 is easily relied on: mypy knows minor versions only.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OLDEST = "3.11.2"  # Debian 12
# Python before 3.11.5 (gh-106052): a group that is repeated possessively goes on behind a try that failed halfway
GROUP_REPEATED = re.compile(r"\)(?:[*+?]|\{[0-9,]+\})\+")
CLASS = re.compile(r"\[(?:\\.|[^\]])+\]")
# Python before 3.11.4: tarfile and shutil take no filter
NEWER = re.compile(r"\.extract(?:all)?\(.*\bfilter=|unpack_archive\(.*\bfilter=")


def test_every_place_names_the_same_oldest_python() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={OLDEST}"
    assert f"Python {OLDEST} or newer" in (ROOT / "README.md").read_text()
    bootstrap = (ROOT / "tools/bootstrap.sh").read_text()
    assert f"sys.version_info < ({OLDEST.replace('.', ', ')})" in bootstrap
    assert f"Python {OLDEST} or newer" in bootstrap
    assert f'= "Python {OLDEST}"' in (ROOT / ".github/workflows/ci.yml").read_text()
    for page in (*(ROOT / "docs/tutorial").glob("*.md"), *(ROOT / "docs/howto").glob("*.md")):
        named = re.findall(r"Python (\S+) or newer", page.read_text())
        assert set(named) <= {OLDEST}, page


@pytest.mark.slow
def test_nothing_needs_what_the_oldest_python_lacks() -> None:
    assert list(_found('archive.extractall(folder, filter="data")\nre.compile(r"(?:a|%[0-9]{2})*+")')) == [1, 2]
    found = [
        f"{file.relative_to(ROOT)}:{line}"
        for folder in ("gateway_core", "plugins", "dev", "tools", "contrib", "tests")
        for file in (ROOT / folder).rglob("*.py")
        if "gateway_spark/readers" not in file.as_posix()  # patterns of Java
        if file != Path(__file__)
        for line in _found(file.read_text())
    ]
    assert found == []


def _found(source: str) -> Iterator[int]:
    for number, line in enumerate(source.splitlines(), 1):
        if NEWER.search(line) or (
            GROUP_REPEATED.search(CLASS.sub("x", line)) and re.search(r"\br[bf]?\"|\brf?'", line)
        ):
            yield number
