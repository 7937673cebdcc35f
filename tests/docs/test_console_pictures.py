"""Each page of the console has its picture, and the pages of the documentation show what there is."""

from __future__ import annotations

import re
import struct

import pytest
from gateway_console.page import NAVIGATION

from tests.console.screenshots import FOLDER, ROOT, SIZE, name_of, pictures

pytestmark = pytest.mark.spec("CO-92")
MOST_BYTES = 100_000


def test_each_page_of_the_console_has_its_picture() -> None:
    there = {file.name for file in FOLDER.glob("console-*.png")}
    assert {name_of(entry.path) for entry in NAVIGATION} <= pictures().keys()
    assert there == pictures().keys(), "run `make screenshots`, and remove what is gone"


@pytest.mark.parametrize("name", pictures())
def test_a_picture_is_small_and_of_the_usual_width(name: str) -> None:
    png = (FOLDER / name).read_bytes()
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    assert width == SIZE["width"]
    assert 200 < height <= SIZE["height"]
    assert len(png) <= MOST_BYTES


def test_the_tour_shows_every_picture_with_a_description() -> None:
    text = (ROOT / "docs/tutorial/console.md").read_text(encoding="utf-8")
    shown = re.findall(r"!\[([^\]]+)\]\(\.\./images/([\w-]+\.png)\)", text)
    assert sorted(name for _, name in shown) == sorted(pictures())
    assert all(len(words) > 10 for words, _ in shown)
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert [entry.title for entry in NAVIGATION] == [h for h in headings if h in {e.title for e in NAVIGATION}]


def test_the_readme_shows_a_picture_that_exists() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (name,) = re.findall(r"\]\(docs/images/(console-[\w-]+\.png)\)", text)
    assert name in pictures()
