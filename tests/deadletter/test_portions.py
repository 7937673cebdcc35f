"""Dead letters go by portions where they stand in their files: only those, whatever happens to the files meanwhile."""

from __future__ import annotations

import logging
from pathlib import Path
from random import Random

import pytest
from gateway_deadletter import line as line_format
from gateway_deadletter.store import Store

from gateway_core.contract.event import Event

pytestmark = [pytest.mark.pure, pytest.mark.spec("SAFE-240")]


def line(n: int) -> bytes:
    event = Event({"specversion": "1.0", "source": "/s", "type": "t", "id": str(n), "note": "x" * (n % 50)})
    return line_format.write(event, n + 1) + b"\n"


def left(store: Store) -> set[str]:
    return {str(event.attributes["id"]) for _, event in store.entries()}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_only_what_is_named_goes(tmp_path: Path, seed: int) -> None:
    """Others append, replace the file and remove lines between reading and removing."""
    random, store, made = Random(seed), Store(tmp_path / "letters.jsonl"), 0
    there: set[str] = set()
    located = {}
    for _ in range(40):
        file = store.file_of(random.randrange(2), 2)
        match random.choice(["append", "read", "remove", "remove", "compact", "replace", "others"]):
            case "append":
                for _ in range(random.randrange(1, 9)):
                    with file.open("ab") as f:
                        f.write(line(made))
                    there.add(str(made))
                    made += 1
            case "read":
                located = {str(event.attributes["id"]): (id_, place) for id_, event, place in store.located()}
            case "remove":
                gone = random.sample(sorted(located), min(len(located), random.randrange(4)))
                store.remove_at([located[n] for n in gone])
                there -= set(gone)
            case "compact":
                store.compact()
            case "replace" if file.exists():
                copy = file.with_suffix(".new")
                copy.write_bytes(line(made) + file.read_bytes())
                copy.rename(file)
                there.add(str(made))
                made += 1
            case "others" if located:
                n = random.choice(sorted(located))
                store.remove([located[n][0]])
                there -= {n}
            case _:
                pass
        assert left(store) == there
    store.compact()
    assert left(store) == there
    assert all(text.startswith(b"{") for file in store.files() for text in file.read_bytes().splitlines())


@pytest.mark.parametrize("part", [1, 17])
def test_a_line_that_a_crash_left_half_overwritten_is_gone_without_a_word(
    tmp_path: Path, part: int, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store(tmp_path / "letters.jsonl")
    store.path.write_bytes(line(1) + b" " * part + line(2)[part:] + line(3))
    with caplog.at_level(logging.WARNING):
        assert left(store) == {"1", "3"}
    assert caplog.records == []


def test_a_last_line_without_a_break_goes_and_the_next_one_is_whole(tmp_path: Path) -> None:
    store = Store(tmp_path / "letters.jsonl")
    store.path.write_bytes(line(1) + line(2)[:-1])
    store.remove_at([(id_, place) for id_, event, place in store.located() if event.attributes["id"] == "2"])
    with store.path.open("ab") as f:
        f.write(b"\n" + line(3))
    assert left(store) == {"1", "3"}
