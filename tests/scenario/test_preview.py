"""What `tidegate explain` and `tidegate test` show is what really leaves: asked of a real subscriber and real files."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway_testing import Subscriber

from gateway_core.config.registry import Registry
from gateway_core.contract.capabilities import ClassifiesResponses, Previewing
from gateway_core.contract.clock import SystemClock
from gateway_core.contract.component import BuildContext, SinkRef
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Outcome
from tests.twins import twins

pytestmark = pytest.mark.anyio

EVENTS = [
    Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "n": 7, "text": "Grüße 100%"}, b'{"a": 1}'),
    Event({"specversion": "1.0", "id": "2", "source": "/s", "type": "t", "datacontenttype": "text/plain"}, b""),
    Event({"specversion": "0.3", "id": "3", "source": "/s", "type": "t"}),
]
STRUCTURED: dict[str, Any] = {"cloudevents": {"mode": "structured"}}


async def sent(options: dict[str, Any], folder: Path, event: Event, name: str = "http") -> Any:
    """Builds a sink, asks it what it would send, sends it, and gives the sink and what it showed."""
    registry = Registry.installed()
    context = BuildContext("test", folder, SystemClock(), registry, wants_reply=True)
    sink = context.build(SinkRef(name, options))
    previewing = sink
    assert isinstance(previewing, Previewing)
    shown = previewing.preview(event)
    done, outcomes = anyio.Event(), list[Outcome]()

    def take(outcome: Outcome) -> None:
        outcomes.append(outcome)
        done.set()

    async with anyio.create_task_group() as tasks:
        await sink.start(tasks)
        sink.send(event, 10, take)
        with anyio.fail_after(60):
            await done.wait()
        await sink.stop()
        tasks.cancel_scope.cancel()
    assert outcomes[0].delivered, outcomes[0].reason
    return sink, shown


@pytest.mark.parametrize("client", twins("native", "httpx"))
@pytest.mark.parametrize("codec", ["cloudevents", STRUCTURED], ids=["binary", "structured"])
@pytest.mark.parametrize("event", EVENTS, ids=lambda event: str(event.attributes["id"]))
async def test_a_request_is_the_one_that_was_shown(client: str, codec: Any, event: Event, tmp_path: Path) -> None:
    with Subscriber() as subscriber:
        options = {"url": f"{subscriber.url}a?b=c", "client": client, "codec": codec, "headers": {"X-A": "b"}}
        _, shown = await sent(options, tmp_path, event)
        (request,) = subscriber.wait_for(1)
    assert (request.method, request.body) == (shown.method, shown.body or b"")
    assert shown.url == f"{subscriber.url}a?b=c"
    engine = {"content-length", "accept-encoding", "connection", "accept"}  # what belongs to the connection
    left = {name: value for name, value in request.headers.items() if name not in engine}
    assert left == {name.decode(): value.decode() for name, value in shown.headers}


async def test_a_line_is_the_one_that_was_shown(tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    _, shown = await sent({"path": str(file)}, tmp_path, EVENTS[0], "file")
    assert (shown.url, shown.body) == (file.as_uri(), file.read_bytes().rstrip(b"\n"))


ANSWERS: list[tuple[int, dict[str, str], bytes]] = [
    (202, {}, b""),
    (200, {"content-type": "application/cloudevents+json"}, b'{"specversion":"1.0","id":"r","source":"/r","type":"r"}'),
    (200, {"content-type": "application/cloudevents+json"}, b"{}"),
    (503, {"retry-after": "7"}, b"busy"),
    (400, {}, b"no"),
    (302, {"location": "/"}, b""),
]


@pytest.mark.parametrize("client", twins("native", "httpx"))
@pytest.mark.parametrize("answer", ANSWERS, ids=lambda a: f"{a[0]}-{len(a[2])}")
async def test_an_answer_means_what_the_sink_says_it_would(
    client: str, answer: tuple[int, dict[str, str], bytes], tmp_path: Path
) -> None:
    with Subscriber(default=answer) as subscriber:
        real, classified = await _classified({"url": subscriber.url, "client": client}, tmp_path, answer)
    facts = attrgetter(*(name for name in dir(Outcome) if not name.startswith("_")))
    assert facts(classified) == facts(real)


async def _classified(options: dict[str, Any], folder: Path, answer: tuple[int, dict[str, str], bytes]) -> Any:
    context = BuildContext("test", folder, SystemClock(), Registry.installed(), wants_reply=True)
    sink = context.build(SinkRef("http", options))
    assert isinstance(sink, ClassifiesResponses)
    done, outcomes = anyio.Event(), list[Outcome]()
    async with anyio.create_task_group() as tasks:
        await sink.start(tasks)  # type: ignore[attr-defined]
        sink.send(EVENTS[0], 10, lambda o: (outcomes.append(o), done.set()))  # type: ignore[attr-defined]
        with anyio.fail_after(60):
            await done.wait()
        await sink.stop()  # type: ignore[attr-defined]
        tasks.cancel_scope.cancel()
    status, headers, body = answer
    return outcomes[0], sink.classify(status, [(k.encode(), v.encode()) for k, v in headers.items()], body)
