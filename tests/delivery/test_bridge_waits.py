"""A bridge from a source that fetches its events (`pulls`): it waits for its sink, or uses its dead letter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gateway_testing import ScriptedSink

from gateway_core.contract.errors import Refused, StorageError
from gateway_core.contract.event import PARTITION_BITS, Event
from gateway_core.contract.interfaces import DELIVERED, Outcome
from gateway_core.contract.outcome import Stage
from gateway_core.contract.status import SourceStatus
from tests.delivery.gateway_rig import Parts, running, until
from tests.delivery.order_rig import BAD, BUSY

pytestmark = pytest.mark.anyio


def event(n: int, partition: int = 1) -> Event:
    attributes = {"specversion": "1.0", "id": str(n), "source": "/t", "type": "t"}
    return Event(attributes, b"", position=partition << PARTITION_BITS | n)


def config(source: str = "pull", **more: Any) -> dict[str, Any]:
    return {"bridges": {"b": {"source": source, "sink": "far", **more}}}


def ids(sink: ScriptedSink) -> list[str]:
    return [e.attributes["id"] for e in sink.sent]


async def test_without_a_dead_letter_it_tries_until_the_sink_takes_the_event(tmp_path: Path) -> None:
    parts = Parts(ScriptedSink(default=BUSY))
    async with running(parts, config(), tmp_path) as gateway:
        answer = parts.pull.put(event(1))
        await until(lambda: len(parts.far.sent) > 30)
        assert answer == []
        (status,) = gateway.status().bridges
        assert not status.ready
        assert "503" in status.reason
        assert status.failed == 0
        parts.far.default = BAD  # also what a source that waits could not be told
        sent = len(parts.far.sent)
        await until(lambda: len(parts.far.sent) > sent + 5)
        assert answer == []
        parts.far.default = DELIVERED
        await until(lambda: answer == [None])
        (status,) = gateway.status().bridges
        assert (status.ready, status.delivered, status.accepted) == (True, 1, 1)


async def test_a_source_that_cannot_wait_is_told(tmp_path: Path) -> None:
    parts = Parts(ScriptedSink([BUSY]))
    async with running(parts, config("tap"), tmp_path):
        (error,) = parts.tap.put(event(1))
        assert "503" in str(error)
        assert ids(parts.far) == ["1"]


async def test_with_a_dead_letter_it_retries_as_a_trigger_does_and_then_gives_up(tmp_path: Path) -> None:
    parts = Parts(ScriptedSink(default=BUSY))
    async with running(parts, config(dead_letter="letters", delivery={"retry": 10}), tmp_path) as gateway:
        answer = parts.pull.put(event(1))
        await until(lambda: answer == [None])
        assert ids(parts.far) == ["1"] * 11
        assert ids(parts.letters) == ["1"]
        assert gateway.status().bridges[0].dead_lettered == 1


async def test_its_own_delivery_settings_win(tmp_path: Path) -> None:
    parts = Parts(ScriptedSink(default=BUSY))
    async with running(parts, config(dead_letter="letters", delivery={"retry": 1}), tmp_path):
        answer = parts.pull.put(event(1))
        await until(lambda: answer == [None])
        assert ids(parts.far) == ["1", "1"]


async def test_the_order_of_a_partition_is_kept_and_others_go_on(tmp_path: Path) -> None:
    parts = Parts(ScriptedSink(hold=True))
    async with running(parts, config(delivery={"order": "partition"}), tmp_path):
        for e in (event(1), event(2), event(3, 2)):
            parts.pull.put(e)
        assert ids(parts.far) == ["1", "3"]
        parts.far.answer(BUSY)
        await until(lambda: ids(parts.far) == ["1", "3", "1"])
        parts.far.answer(index=1)
        assert ids(parts.far) == ["1", "3", "1", "2"]
        while parts.far.held:
            parts.far.answer()


async def test_what_is_withdrawn_is_dropped_without_an_answer(tmp_path: Path) -> None:
    parts = Parts(ScriptedSink(hold=True))
    async with running(parts, config(delivery={"order": "partition"}), tmp_path):
        answers = [parts.pull.put(e) for e in (event(1), event(2), event(3, 2), event(4, 2))]
        withdrawn = parts.pull.intake.withdraw(1)
        assert [p >> PARTITION_BITS for p in withdrawn] == [1]
        while parts.far.held:
            parts.far.answer()
        assert ids(parts.far) == ["1", "3", "4"]
        assert answers == [[None], [], [None], [None]]
        assert parts.pull.intake.withdraw(1) == []


async def test_what_is_no_event_goes_to_the_dead_letter_as_of_the_stage_decode(tmp_path: Path) -> None:
    parts = Parts(letters=ScriptedSink([BUSY], address="letters:"))
    answers: list[BaseException | None] = []
    async with running(parts, config(dead_letter="letters", delivery={"retry": 10}), tmp_path) as gateway:
        reason = Outcome(False, stage=Stage.DECODE, reason="no specversion")
        parts.pull.intake.undeliverable(event(1), reason, "pull:", answers.append)
        assert answers == []
        await until(lambda: answers == [None])
        facts = parts.letters.sent[-1].attributes
        assert (facts["tidegatestage"], facts["tidegatereason"]) == ("decode", "no specversion")
        assert (facts["knativeerrordest"], facts["tidegatetrigger"]) == ("pull:", "b")
        assert gateway.status().bridges[0].dead_lettered == 1


async def test_without_a_dead_letter_what_is_no_event_is_answered_with_an_error(tmp_path: Path) -> None:
    parts = Parts()
    answers: list[BaseException | None] = []
    async with running(parts, config(), tmp_path) as gateway:
        not_an_event = Outcome(False, stage=Stage.DECODE, reason="no event")
        parts.pull.intake.undeliverable(event(1), not_an_event, "pull:", answers.append)
        (error,) = answers
        assert isinstance(error, StorageError)
        parts.pull.intake.refuse(Refused("no event"))
        assert gateway.status().bridges[0].refused == 1


async def test_status_shows_what_its_source_says(tmp_path: Path) -> None:
    parts = Parts()
    async with running(parts, config(), tmp_path) as gateway:
        (status,) = gateway.status().bridges
        assert status.sources == [SourceStatus("tap:", lag=7)]
        assert status.ready
        parts.pull.error = "no broker answers"
        (status,) = gateway.status().bridges
        assert (status.ready, status.reason) == (False, "no broker answers")


async def test_status_of_a_broker_shows_its_watched_sources_alone(tmp_path: Path) -> None:
    parts = Parts()
    brokers = {"default": {"ingress": ["tap", "pull"], "dead_letter": "letters"}}
    async with running(parts, {"brokers": brokers}, tmp_path) as gateway:
        (status,) = gateway.status().brokers
        assert status.sources == [SourceStatus("tap:", lag=7)]
        assert status.ingress == ["tap:", "tap:"]
        assert parts.pull.intake.stores
        assert parts.pull.intake.withdraw(1) == ()
