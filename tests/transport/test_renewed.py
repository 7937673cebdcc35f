"""`gateway_options.renewed.Renewed`: values follow their files. Time jumps in these tests."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from gateway_options.renewed import CHECK_S, GONE_S, Renewed

pytestmark = pytest.mark.spec("HM-01")


class Pair:
    """Two files that fit together if they hold the same text."""

    def __init__(self, folder: Path) -> None:
        self.one, self.other = folder / "one", folder / "other"
        self.now = 0.0
        self.write("a", "a")
        self.renewed = Renewed([self.one, self.other], self.read, "place", "letters", lambda: self.now)

    def write(self, one: str, other: str) -> None:
        self.one.write_text(one)
        self.other.write_text(other)

    def read(self) -> str:
        if self.one.read_text() != self.other.read_text():
            raise ValueError("they differ")
        return self.one.read_text()

    def later(self) -> str:
        self.now += CHECK_S
        return self.renewed.current()


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def test_changed_files_are_read_again_once(pair: Pair) -> None:
    assert pair.later() == "a"
    assert pair.renewed.made == 1
    pair.write("bb", "bb")
    assert pair.renewed.current() == "a"  # not before its time
    assert pair.later() == "bb"
    assert pair.later() == "bb"
    assert pair.renewed.made == 2


def test_half_a_change_does_no_harm_and_is_not_logged(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    pair.write("bb", "a")
    assert pair.later() == "a"
    pair.write("bb", "bb")
    assert pair.later() == "bb"
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


def test_broken_files_keep_the_value_with_one_line(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    pair.write("bb", "a")
    assert {pair.later() for _ in range(5)} == {"a"}
    assert [r.getMessage() for r in caplog.records] == [
        "place: the new letters can't be used, the old ones stay in use: they differ"
    ]
    pair.one.unlink()
    assert {pair.later() for _ in range(5)} == {"a"}
    assert len(caplog.records) == 2  # another fault, another line
    pair.write("a", "a")
    assert pair.later() == "a"


def test_the_first_read_raises(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Renewed([tmp_path / "none"], (tmp_path / "none").read_text, "place", "letters")


@pytest.mark.spec("HM-17")
def test_files_that_were_removed_have_another_value(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    pair.renewed = Renewed([pair.one, pair.other], pair.read, "place", "letters", lambda: pair.now, lambda: "none")
    pair.one.unlink()
    assert pair.later() == "a", "it may be in the middle of a replacement"
    pair.now += GONE_S
    assert pair.renewed.current() == "none", "soon after it was missed"
    assert {pair.later() for _ in range(5)} == {"none"}
    assert [r.getMessage() for r in caplog.records] == [
        f"place: {pair.one} was removed: its letters are no longer in use"
    ]
    pair.write("b", "a")
    assert {pair.later() for _ in range(5)} == {"none"}
    assert caplog.records[-1].getMessage().startswith("place: the new letters can't be used, there are none in use")
    pair.write("b", "b")
    assert pair.later() == "b"
    pair.one.unlink()
    assert [pair.later() for _ in range(2)] == ["b", "none"]


def test_a_value_without_files_may_be_refused(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    def refuse() -> str:
        raise ValueError("no")

    pair.renewed = Renewed([pair.one, pair.other], pair.read, "place", "letters", lambda: pair.now, refuse)
    pair.one.unlink()
    assert {pair.later() for _ in range(5)} == {"a"}
    assert len(caplog.records) == 1
    assert "the old ones stay in use" in caplog.text
