"""The ledger sees what is missing, different or out of order; the lab says why it does not begin."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.adapter import KEYS, Arrived, attributes_of, read_structured, structured
from tests.faults.adapters.nats import Nats
from tests.faults.lab import Lab
from tests.faults.ledger import FaultLedger, letters
from tests.ledger import body_of


def test_what_is_missing() -> None:
    ledger = FaultLedger()
    for number in (1, 2, 3):
        ledger.acknowledge(number)
    for number in (1, 1, 4):  # the fourth's acknowledgement was lost
        ledger.arrive(read_structured(structured(number)))
    assert ledger.open() == {2, 3}
    assert ledger.open({2: b""}) == {3}
    assert not ledger.wrong
    figures = ledger.figures(letters=1, faults=0, seconds=1.0)
    assert (figures.acknowledged, figures.delivered, figures.duplicates, figures.dead_lettered) == (3, 2, 1, 1)


def test_what_is_different() -> None:
    ledger = FaultLedger()
    ledger.arrive(Arrived(attributes_of(1), body_of(2)))
    ledger.arrive(Arrived({**attributes_of(2), "note": "other"}, body_of(2)))
    ledger.arrive(Arrived({**attributes_of(3), "more": "one"}, body_of(3)))
    ledger.arrive(Arrived({**attributes_of(4), "traceparent": "00-1-2-01"}, body_of(4)))
    assert [line.partition(":")[0] for line in ledger.wrong] == ["1", "2", "3"]


def test_what_is_out_of_order() -> None:
    ledger = FaultLedger()
    for number in (1 + KEYS, 1, 1 + KEYS, 2, 2 + KEYS):
        ledger.arrive(read_structured(structured(number)))
    assert ledger.out_of_order == [f"1 after {1 + KEYS}"]


def test_letters(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"event": {"id": "7", "source": "/faults"}}\n{"event": {"id": "7", "source": "/poison"}}\n'
    )
    numbered, others = letters(tmp_path)
    assert (set(numbered), others) == ({7}, 1)


def test_a_server_that_does_not_start_is_what_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def start() -> None:
        raise OSError("no such server")

    lab = Lab(Nats(), tmp_path)
    monkeypatch.setattr(lab.server, "start", start)
    with pytest.raises(OSError, match="no such server"), lab:
        pass
