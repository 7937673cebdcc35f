"""One tap by itself: what it holds, drops and writes."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from gateway_inspect.tap.choice import MOST_HELD, BadFilter, Choice, compile_all
from gateway_inspect.tap.tap import Tap
from gateway_testing import FakeClock

from gateway_core.config.registry import Registry
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Outcome

pytestmark = pytest.mark.anyio


def event(data: bytes | None = None, **attributes: Any) -> Event:
    return Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t", **attributes}, data)


def tap(data_bytes: int = 0, *filters: str) -> Tap:
    return Tap(Choice(data_bytes=data_bytes), compile_all(filters, Registry.installed()), FakeClock())


def lines(tapped: Tap, most: int = MOST_HELD) -> list[dict[str, Any]]:
    return [json.loads(line) for line in tapped.take(most)[0]]


async def test_what_there_is_no_room_for_is_counted() -> None:
    tapped = tap()
    tapped.accepted("b", [event()] * (MOST_HELD + 7))
    tapped.push([b"{}"] * 3, dropped=2)
    taken, dropped = tapped.take(100)
    assert (len(taken), dropped) == (100, 12)
    assert tapped.take(0)[1] == 0
    tapped.push([b"{}"] * 101)
    assert tapped.take(0)[1] == 1


async def test_what_the_filter_drops_is_not_counted() -> None:
    tapped = tap(0, "type=other")
    tapped.accepted("b", [event()] * (MOST_HELD + 1))
    tapped.refused("b", None)  # type: ignore[arg-type]  # not looked at
    assert tapped.take(1) == ([], 0)


@pytest.mark.parametrize(
    ("data", "size", "shown"),
    [
        (b"abcdef", 3, {"data": "abc"}),
        ("aé".encode(), 2, {"data": "a"}),
        (b"\xff\x00", 9, {"data_base64": "/wA="}),
        (b"", 9, {"data": ""}),
        (None, 9, {}),
        (b"abc", 0, {}),
    ],
)
async def test_data_is_cut(data: bytes | None, size: int, shown: dict[str, str]) -> None:
    tapped = tap(size)
    tapped.accepted("b", [event(data)])
    (line,) = lines(tapped)
    assert {name: value for name, value in line.items() if name.startswith("data")} == shown
    assert line["bytes"] == (None if data is None else len(data))


async def test_what_json_can_not_have_is_dropped_and_nobody_is_hurt() -> None:
    tapped = tap()
    tapped.accepted("b", [event(odd="\ud800"), event(id="2")])
    taken, dropped = tapped.take(9)
    assert ([json.loads(line)["event"]["id"] for line in taken], dropped) == (["2"], 1)


async def test_an_attempt_that_began_before_the_tap_has_no_duration() -> None:
    tapped = tap()
    tapped.attempted("t", event(), Outcome(True, code=202), 0.0)
    tapped.attempted("t", event(), Outcome(False, code=503, reason="503"), 0.25)
    assert [line["ms"] for line in lines(tapped)] == [None, 250]


async def test_who_waits_is_woken() -> None:
    tapped = tap()
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tapped.wait)
            await anyio.wait_all_tasks_blocked()
            tapped.accepted("b", [event()])
        lines(tapped)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tapped.wait)
            await anyio.wait_all_tasks_blocked()
            tapped.close()


@pytest.mark.parametrize(
    ("text", "matching"),
    [("type=t", True), ("type=", True), ("subject=", False), ("n=7", True)],
)
def test_pairs(text: str, matching: bool) -> None:
    wanted = compile_all([text], Registry.installed())
    assert wanted is not None
    assert wanted.matches(event(n=7)) is matching


@pytest.mark.parametrize("text", ["type = ", "=x", "", "type LIKE 'a' AND", "type=t*"])
def test_a_filter_that_is_none(text: str) -> None:
    with pytest.raises(BadFilter, match="can't be used"):
        compile_all([text], Registry.installed())
