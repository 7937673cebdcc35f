"""Filters, key mappers and observers that raise, through a whole gateway with the log channel: no event is lost, nobody
else is held up, and the operator sees whose fault it is."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway_testing import ScriptedSink
from pydantic import RootModel

from gateway_core.contract.component import Component, Config
from gateway_core.contract.event import Event
from gateway_core.contract.hookspecs import hookimpl
from gateway_core.contract.interfaces import Filter, Observer, Outcome
from gateway_core.contract.status import ObserverStatus
from tests.delivery.gateway_rig import Parts, running, until

pytestmark = pytest.mark.anyio


class Panic(BaseException):
    """What a library in Rust raises; no `Exception`."""


class NoBool:
    """What a comparison of arrays gives."""

    def __bool__(self) -> bool:
        raise ValueError("the truth value of an array is ambiguous")


class Silent(Exception):
    def __str__(self) -> str:
        raise TypeError("no text")


def recurse(event: Event) -> bool:
    return recurse(event)


def raising(error: BaseException) -> Callable[[Event], bool]:
    def matches(event: Event) -> bool:
        raise error

    return matches


class Name(RootModel[str]):
    """Which of the test's parts."""


class Hostile(Parts):
    """Filters, key mappers and observers by name."""

    def __init__(self, **parts: Any) -> None:
        super().__init__()
        self.other = ScriptedSink(address="other:")
        self.parts = parts

    @hookimpl
    def gateway_filters(self) -> list[Component]:
        return [Component("test", "A test's.", Name, lambda o, c: Filter(self.parts[o.root]))]

    @hookimpl
    def gateway_key_mappers(self) -> list[Component]:
        return [Component("test", "A test's.", Name, lambda o, c: self.parts[o.root])]

    @hookimpl
    def gateway_observers(self) -> list[Component]:
        return [Component("test", "A test's.", Config, lambda o, c: self.parts["observer"])]

    @hookimpl
    def gateway_dead_letters(self) -> list[Component]:
        # not a dead letter in truth: the second subscriber
        return [Component("other", "A test's.", Config, lambda o, c: self.other)]


def events(count: int, first: int = 0) -> list[Event]:
    base = {"specversion": "1.0", "source": "/t", "type": "t"}
    return [Event({**base, "id": str(n)}, b"") for n in range(first, first + count)]


def ids(sink: ScriptedSink) -> list[str]:
    return [str(e.attributes["id"]) for e in sink.sent]


def config(**trigger: Any) -> dict[str, Any]:
    return {
        "brokers": {"default": {"ingress": ["tap"], "dead_letter": "letters"}},
        "triggers": {
            "bad": {"subscriber": "far", "dead_letter": "other", "filters": [{"test": "bad"}], **trigger},
            "good": {"subscriber": "far", "dead_letter": "letters"},
        },
    }


HOSTILE = {
    "ValueError": raising(ValueError("no such field")),
    "Silent": raising(Silent()),
    "SystemExit": raising(SystemExit(1)),
    "Panic": raising(Panic("unwrap on None")),
    "RecursionError": recurse,
    "no bool": lambda event: NoBool(),
}


@pytest.mark.spec("SAFE-25")
@pytest.mark.parametrize("name", HOSTILE)
async def test_a_filter_that_raises_loses_nothing_and_holds_up_nobody(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    parts = Hostile(bad=HOSTILE[name])
    async with running(parts, config(), tmp_path) as gateway:
        answers = parts.tap.put(*events(5))
        await until(lambda: len(parts.far.sent) >= 5 and len(parts.other.sent) >= 5)
        assert answers == [None]
        status = {t.name: t for t in gateway.status().triggers}
        assert status["bad"].filter_errors == 5
        assert status["bad"].dead_lettered_by_stage["filter"] == 5
        assert (status["bad"].delivered, status["bad"].lag) == (0, 0)
        assert status["bad"].last_error.startswith("filter: ")
        assert (status["good"].delivered, status["good"].filter_errors) == (5, 0)
    assert ids(parts.far) == ids(parts.other) == ["0", "1", "2", "3", "4"]
    facts = parts.other.sent[0].attributes
    assert (facts["tidegatetrigger"], facts["tidegatestage"], facts["tidegateattempts"]) == ("bad", "filter", 0)
    (told,) = [r for r in caplog.records if r.name == "tidegate.plugins"]  # one line for all five
    assert "triggers.bad.filters" in told.getMessage()
    assert told.levelno == logging.ERROR


@pytest.mark.spec("SAFE-34")
@pytest.mark.parametrize("error", [MemoryError(), SystemError("error return without exception set")])
@pytest.mark.parametrize("short_for", [2, 99])
async def test_a_filter_without_memory_is_asked_again(error: Exception, short_for: int, tmp_path: Path) -> None:
    left = {str(n): short_for for n in range(5)}

    def filter(event: Event) -> bool:
        left[event.attributes["id"]] -= 1
        if left[event.attributes["id"]] >= 0:
            raise error
        return event.attributes["id"] != "3"

    parts = Hostile(bad=filter)
    short = {"delivery": {"retry": 3, "backoff_delay_s": 0.01}}
    async with running(parts, config(**short), tmp_path) as gateway:
        parts.tap.put(*events(5))
        await until(lambda: len(parts.far.sent) + len(parts.other.sent) == (9 if short_for == 2 else 10))
        await until(lambda: gateway.status().entries("triggers")[0].lag == 0)
        (status,) = [t for t in gateway.status().triggers if t.name == "bad"]
        assert status.filter_errors == 5 * min(short_for, 4)
    if short_for == 2:
        assert parts.other.sent == []
        assert sorted(ids(parts.far)) == sorted([*"01234", *"0124"])
    else:
        assert sorted(ids(parts.other)) == list("01234")
        assert {e.attributes["tidegateattempts"] for e in parts.other.sent} == {3}


@pytest.mark.spec("SAFE-34")
async def test_with_an_order_a_filter_without_memory_is_not_asked_again(tmp_path: Path) -> None:
    """Later events of its partition would overtake it."""
    parts = Hostile(bad=raising(MemoryError()))
    async with running(parts, config(delivery={"order": "partition", "retry": 3}), tmp_path):
        parts.tap.put(*events(3))
        await until(lambda: ids(parts.other) == ["0", "1", "2"])


@pytest.mark.spec("SAFE-25")
async def test_a_filter_that_raises_now_and_then_keeps_what_it_did_not_decide(tmp_path: Path) -> None:
    def moody(event: Event) -> bool:
        n = int(event.attributes["id"])
        if n % 3 == 0:
            raise KeyError("size")
        return n % 3 == 1

    parts = Hostile(bad=moody)
    async with running(parts, config(), tmp_path):
        parts.tap.put(*events(30))
        await until(lambda: len(parts.far.sent) == 40 and len(parts.other.sent) == 10)
    assert sorted(map(int, ids(parts.other))) == list(range(0, 30, 3))


@pytest.mark.slow
@pytest.mark.spec("SAFE-25")
async def test_what_a_raising_filter_kept_waits_for_its_dead_letter_over_a_restart(tmp_path: Path) -> None:
    """While the dead letter fails the trigger holds a bounded number of events; all of them are there afterwards."""
    parts = Hostile(bad=raising(ValueError("no")))
    parts.other.default = Outcome(False, retry=True, reason="the disk is full")
    async with running(parts, config(), tmp_path) as gateway:
        for n in range(0, 200, 10):
            parts.tap.put(*events(10, n))
        await until(lambda: len(parts.far.sent) == 200)
        (bad,) = [t for t in gateway.status().triggers if t.name == "bad"]
        assert (bad.ready, bad.lag) == (False, 200)
    again = Hostile(bad=raising(ValueError("no")))
    async with running(again, config(), tmp_path):
        await until(lambda: len(again.other.sent) >= 200)
    assert sorted(map(int, ids(again.other))) == list(range(200))


@pytest.mark.spec("SAFE-25")
async def test_a_filter_that_raises_while_its_trigger_catches_up(tmp_path: Path) -> None:
    """The events are in the file, not in the ring: the trigger was paused when they came, and the gateway restarted."""
    parts = Hostile(bad=lambda event: True)
    async with running(parts, config(), tmp_path) as gateway:
        gateway.pause(["bad"])
        parts.tap.put(*events(20))
        await until(lambda: len(parts.far.sent) == 20)
    again = Hostile(bad=raising(ValueError("no")))
    async with running(again, config(), tmp_path):
        await until(lambda: len(again.other.sent) == 20)
    assert ids(again.other) == [str(n) for n in range(20)]


@pytest.mark.spec("SAFE-26")
async def test_a_key_mapper_that_raises_puts_the_event_into_the_dead_letter(tmp_path: Path) -> None:
    def mapper(event: Event) -> bytes | None:
        if event.attributes["id"] == "1":
            raise IndexError("list index out of range")
        return b"k" if event.attributes["id"] != "2" else []  # type: ignore[return-value]  # not hashable

    parts = Hostile(bad=lambda event: True, key=mapper)
    order = {"delivery": {"order": "key", "order_key": {"test": "key"}}}
    async with running(parts, config(**order), tmp_path) as gateway:
        parts.tap.put(*events(5))
        await until(lambda: len(parts.far.sent) == 8 and len(parts.other.sent) == 2)
        (bad,) = [t for t in gateway.status().triggers if t.name == "bad"]
        assert (bad.delivered, bad.dead_lettered_by_stage["order"], bad.lag, bad.waiting) == (3, 2, 0, 0)
    assert sorted(ids(parts.other)) == ["1", "2"]
    assert parts.other.sent[0].attributes["tidegatestage"] == "order"


class Rude(Observer):
    """Raises whatever it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def accepted(self, broker: str, events: Sequence[Event]) -> None:
        self.told.append("accepted")
        raise RuntimeError("the backend is down")

    def attempted(self, trigger: str, event: Event, outcome: Outcome, seconds: float) -> None:
        self.told.append("attempted")
        raise Panic("unwrap on None")

    def dead_lettered(self, trigger: str, event: Event) -> None:
        self.told.append("dead_lettered")
        raise RuntimeError("the backend is down")


@pytest.mark.spec("SAFE-27")
async def test_an_observer_that_raises_is_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rude = Rude()
    parts = Hostile(bad=raising(ValueError("no")), observer=rude)
    async with running(parts, {**config(), "observers": ["test"]}, tmp_path) as gateway:
        answers = [parts.tap.put(*events(1, n)) for n in range(4)]
        await until(lambda: len(parts.far.sent) == 4 and len(parts.other.sent) == 4)
        assert answers == [[None]] * 4
        (observer,) = gateway.status().observers
        assert observer == ObserverStatus("test", len(rude.told), observer.last_error)
        assert sorted(rude.told) == sorted(["accepted"] * 4 + ["attempted"] * 4 + ["dead_lettered"] * 4)
    told = [r.getMessage() for r in caplog.records if "observers[0]" in r.getMessage()]
    assert len(told) == 1


@pytest.mark.spec("SAFE-27")
async def test_a_slow_observer_is_named_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Slow(Observer):
        def accepted(self, broker: str, events: Sequence[Event]) -> None:
            time.sleep(0.15)

    parts = Hostile(bad=lambda event: True, observer=Slow())
    async with running(parts, {**config(), "observers": ["test"]}, tmp_path):
        parts.tap.put(*events(1))
        await until(lambda: len(parts.far.sent) == 2)
    (told,) = [r.getMessage() for r in caplog.records if r.name == "tidegate.plugins"]
    assert "observers[0] (test)" in told
    assert "`accepted`" in told


# -- bridges ----------------------------------------------------------------------------------------------------------


def bridge(**more: Any) -> dict[str, Any]:
    return {"bridges": {"b": {"source": "tap", "sink": "far", "filters": [{"test": "bad"}], **more}}}


@pytest.mark.spec("SAFE-25")
async def test_a_bridge_with_a_dead_letter_keeps_what_its_filter_raised_on(tmp_path: Path) -> None:
    parts = Hostile(bad=raising(ValueError("no")))
    async with running(parts, bridge(dead_letter="letters"), tmp_path) as gateway:
        answers = parts.tap.put(*events(3))
        await until(lambda: len(parts.letters.sent) == 3 and answers)
        assert answers == [None]
        (status,) = gateway.status().bridges
        assert (status.filter_errors, status.dead_lettered_by_stage["filter"], status.unwanted) == (3, 3, 0)
    assert parts.far.sent == []


@pytest.mark.spec("SAFE-25")
async def test_a_bridge_without_a_dead_letter_tells_its_sender(tmp_path: Path) -> None:
    parts = Hostile(bad=raising(ValueError("no such field")))
    async with running(parts, bridge(), tmp_path):
        answers = parts.tap.put(*events(3))
        await until(lambda: answers)
    assert answers[0] is not None
    assert "no such field" in str(answers[0])
    assert parts.far.sent == []


@pytest.mark.spec("SAFE-25")
async def test_a_fetching_bridge_without_a_dead_letter_stops_at_the_event_until_the_filter_decides(
    tmp_path: Path,
) -> None:
    broken = [True]

    def moody(event: Event) -> bool:
        if broken[0]:
            raise ValueError("the table is locked")
        return event.attributes["id"] != "1"

    parts = Hostile(bad=moody)
    config = {"bridges": {"b": {"source": "pull", "sink": "far", "filters": [{"test": "bad"}]}}}
    async with running(parts, config, tmp_path) as gateway:
        answers = [parts.pull.put(*events(1, n)) for n in range(3)]
        await until(lambda: gateway.status().bridges[0].filter_errors > 6)
        (status,) = gateway.status().bridges
        assert not status.ready
        assert status.last_error == "filter: ValueError: the table is locked"
        assert answers == [[], [], []]
        broken[0] = False
        await until(lambda: all(answers))
        assert answers == [[None]] * 3
    assert sorted(ids(parts.far)) == ["0", "2"]


# -- asking -----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("SAFE-25")
async def test_explain_why_and_tap_say_that_a_filter_raises(tmp_path: Path) -> None:
    from gateway_inspect.explain import explain
    from gateway_inspect.tap.choice import Choice
    from gateway_inspect.why import Wanted, why

    parts = Hostile(bad=raising(ValueError("no such field")))
    async with running(parts, config(), tmp_path) as gateway:
        service = gateway.services["inspect"]
        tap = service.taps.open(Choice("default", None, (), 0), Filter(raising(ValueError("tapped"))))
        parts.tap.put(*events(1))
        await until(lambda: len(parts.other.sent) == 1)
        found = {delivery["name"]: delivery for delivery in explain(gateway.topology, events(1)[0])["deliveries"]}
        assert found["bad"]["matched"] is True
        assert "no such field" in found["bad"]["filter"]["found"]
        asked = await why(service, Wanted("0"), None)
        (bad,) = [delivery for delivery in asked["events"][0]["deliveries"] if delivery["name"] == "bad"]
        assert bad["matched"] is True
        with anyio.fail_after(60):
            await tap.wait()
        lines, dropped = tap.take(10)
        assert dropped == 0
        assert b'"filter_error":"ValueError: tapped"' in lines[0]


# -- sinks ------------------------------------------------------------------------------------------------------------


class Odd(ScriptedSink):
    """Does with each event what its id says."""

    def send(self, event: Event, timeout_s: float, done: Callable[[Any], None]) -> None:
        self.sent.append(event)
        what = str(event.attributes["id"])
        first = [e.attributes["id"] for e in self.sent].count(what) == 1
        if what == "raises":
            raise RuntimeError("in the middle of the pump")
        if what == "answers, then raises":
            done(Outcome(True))
            raise RuntimeError("after the answer")
        if what == "twice":
            done(Outcome(True))
            done(Outcome(False, retry=True))
        elif what == "junk" and first:
            done("fine, thanks")
        elif what == "junk in fields" and first:
            done(Outcome(False, retry=True, reason=None, retry_after_s="soon", data="text", code="x"))  # type: ignore[arg-type]
        elif what == "junk reply":
            done(Outcome(True, reply={"id": 1}))  # type: ignore[arg-type]
        else:
            done(Outcome(True))


@pytest.mark.pure
@pytest.mark.spec("SAFE-28")
async def test_a_sink_that_breaks_its_contract_is_isolated_to_the_event(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kinds = ["raises", "answers, then raises", "twice", "junk", "junk in fields", "junk reply", "fine"]
    parts = Hostile()
    parts.far = Odd(address="far:")
    config = {
        "brokers": {"default": {"ingress": ["tap"], "dead_letter": "letters"}},
        "triggers": {"it": {"subscriber": "far"}},
    }
    base = {"specversion": "1.0", "source": "/t", "type": "t"}
    async with running(parts, config, tmp_path) as gateway:
        parts.tap.put(*(Event({**base, "id": kind}, b"") for kind in kinds))
        status = gateway.status().triggers
        await until(lambda: gateway.status().triggers[0].lag == 0 and len(parts.far.sent) >= 9)
        (status,) = gateway.status().triggers
        assert (status.in_flight, status.waiting, status.delivered) == (0, 0, 5)
    assert sorted(ids(parts.letters)) == ["junk reply", "raises"]
    assert len([r for r in caplog.records if "the sink of it reported a second outcome" in r.getMessage()]) == 1


@pytest.mark.spec("SAFE-28")
async def test_a_dead_letter_that_answers_twice_counts_once(tmp_path: Path) -> None:
    class Twice(ScriptedSink):
        def send(self, event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
            self.sent.append(event)
            done(Outcome(True))
            done(Outcome(True))

    parts = Hostile(bad=raising(ValueError("no")))
    parts.other = Twice(address="other:")
    async with running(parts, config(), tmp_path) as gateway:
        parts.tap.put(*events(3))
        await until(lambda: len(parts.far.sent) == 3)
        (bad,) = [t for t in gateway.status().triggers if t.name == "bad"]
        assert (bad.dead_lettered, bad.waiting, bad.lag) == (3, 0, 0)
