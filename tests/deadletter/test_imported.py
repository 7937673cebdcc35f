"""What was imported is remembered, over crashes, and not without end."""

from __future__ import annotations

from pathlib import Path

import pytest
from gateway_deadletter.imported import imported

pytestmark = [pytest.mark.pure, pytest.mark.spec("SAFE-121")]


def known(folder: Path, ids: list[str], most: int = 8) -> list[str]:
    with imported(folder, most) as before:
        return [id_ for id_ in ids if id_ in before]


def test_the_newest_are_kept(tmp_path: Path) -> None:
    ids = [str(n) for n in range(30)]
    for id_ in ids:
        with imported(tmp_path, 8) as before:
            before.add([id_])
    kept = known(tmp_path, ids)
    assert kept == ids[-len(kept) :]
    assert 8 <= len(kept) <= 10


def test_a_torn_line_is_no_id_and_joins_no_other(tmp_path: Path) -> None:
    with imported(tmp_path) as before:
        before.add(["a", "b"])
    (tmp_path / "dead-letter" / "imported").write_bytes(b"a\nbb")
    assert known(tmp_path, ["a", "b", "bb"]) == ["a"]
    with imported(tmp_path) as before:
        before.add(["b", "c"])
    assert known(tmp_path, ["a", "b", "c", "bbb"]) == ["a", "b", "c"]
