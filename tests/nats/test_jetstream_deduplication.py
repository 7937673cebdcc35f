"""The channel `jetstream` stores events with the same key once: the server drops the others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from gateway_dev import servers
from gateway_testing import GatewayProcess, Subscriber
from gateway_testing.suites import Kit
from gateway_testing.suites.channel import append
from gateway_testing.suites.sink import numbered

from gateway_core.contract.deduplicate_config import DeduplicateConfig
from gateway_core.contract.errors import StartError
from gateway_core.contract.event import Event
from tests import web
from tests.command_line import tidegate
from tests.ledger import free_port
from tests.nats.conftest import NatsKit, ask

pytestmark = pytest.mark.anyio

CONFIG = """
brokers:
  default:
    ingress:
      - http: {listen: "127.0.0.1:PORT"}
    channel: {jetstream: {servers: "SERVER", stream: s, subject: s, ack_wait_s: 2 MORE}}
    deduplicate: {WANTED}
triggers:
  subscriber:
    subscriber: URL
"""


@asynccontextmanager
async def opened(kit: Kit, server: str, name: str, wanted: dict[str, Any]) -> AsyncIterator[Any]:
    channel: Any = kit.channel("jetstream", {"servers": server, "stream": name, "subject": name})
    channel.deduplicate(DeduplicateConfig.model_validate(wanted))
    async with anyio.create_task_group() as tasks:
        try:
            await channel.start(tasks)
            await channel.open()
            yield channel
        finally:
            with anyio.CancelScope(shield=True):
                await channel.stop()
        tasks.cancel_scope.cancel()


async def put(channel: Any, events: list[Event]) -> list[int]:
    """The positions of the first ones of duplicates; 0 for each that was stored."""
    await append(channel, events)
    return [event.position if event.duplicate else 0 for event in events]


@pytest.mark.spec("ONCE-11")
async def test_the_stream_has_each_key_once_and_a_duplicate_the_place_of_the_first(kit: NatsKit) -> None:
    async with opened(kit, kit.server.url, kit.name, {"window": "1h"}) as channel:
        assert await put(channel, numbered(3)) == [0, 0, 0]
        assert await put(channel, numbered(3, 1)) == [2, 3, 0]
        assert await put(channel, [*numbered(1, 9), *numbered(1, 9)]) == [0, 5]
        other = numbered(1)
        other[0].attributes["source"] = "/other"
        assert await put(channel, other) == [0]
        assert (channel.appended, channel.info()["deduplication"]["duplicates"]) == (6, 3)
        (known,) = channel.repeated("n2", None)
        assert known.first == 3
        channel.append_again(numbered(1), lambda _: None)
    async with opened(kit, kit.server.url, kit.name, {"window": "1h"}) as channel:
        assert await put(channel, numbered(2, 1)) == [2, 3]
        assert channel.info()["events"] == 7


@pytest.mark.spec("ONCE-16")
async def test_duplicates_with_other_content_are_counted(kit: NatsKit, caplog: pytest.LogCaptureFixture) -> None:
    async with opened(kit, kit.server.url, kit.name, {"window": "1h"}) as channel:
        await put(channel, numbered(2))
        other, reordered = numbered(1)[0], numbered(1, 1)[0]
        other.data = b"other"
        reordered.attributes = dict(reversed(reordered.attributes.items()), traceparent="00-1-2-00")
        assert await put(channel, [other, reordered]) == [1, 2]
        with anyio.fail_after(10):
            while not channel.info()["deduplication"]["conflicts"]:  # noqa: ASYNC110 - the server has no event for it
                await anyio.sleep(0.01)
        info = channel.info()["deduplication"]
        assert (info["duplicates"], info["conflicts"], info["not_compared"]) == (2, 1, 0)
        assert [known.differs for known in channel.repeated("n0", None)] == [True]
        assert [known.differs for known in channel.repeated("n1", None)] == [False]
    assert "with the key of an earlier one but other content: 1; the last: id n0, like position 1" in caplog.text


@pytest.mark.spec("ONCE-11")
async def test_a_server_that_was_killed_knows_the_keys(own_nats: servers.Server, tmp_path: Path) -> None:
    async with opened(Kit(tmp_path / "a"), own_nats.url, "s", {"window": "1h"}) as channel:
        await put(channel, numbered(100))
    await anyio.to_thread.run_sync(own_nats.kill)
    await anyio.to_thread.run_sync(own_nats.start)
    async with opened(Kit(tmp_path / "b"), own_nats.url, "s", {"window": "1h"}) as channel:
        assert await put(channel, numbered(101)) == [*range(1, 101), 0]


@pytest.mark.spec("ONCE-11")
async def test_events_without_the_key_are_stored_each_time(kit: NatsKit) -> None:
    async with opened(kit, kit.server.url, kit.name, {"window": "1h", "key": ["ordernumber"]}) as channel:
        assert await put(channel, [*numbered(1), *numbered(1)]) == [0, 0]
        assert channel.info()["deduplication"]["without_key"] == 2


@pytest.mark.spec("ONCE-12")
async def test_a_stream_with_another_window_is_a_fault_that_says_the_difference(kit: NatsKit) -> None:
    async with opened(kit, kit.server.url, kit.name, {"window": "1h"}):
        pass
    with pytest.raises(ExceptionGroup) as found:
        async with opened(kit, kit.server.url, kit.name, {"window": "2h"}):
            pass
    assert found.group_contains(StartError, match="is not as configured: `duplicates_s` is 3600 and not 7200")


@pytest.mark.spec("ONCE-12")
@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("wanted", "more", "why"),
    [
        ("window: 1h, on_conflict: refuse", "", "the channel `jetstream` can't do `on_conflict: refuse`"),
        ("window: 1h, max_keys: 5000", "", "the channel `jetstream` has no `max_keys`"),
        ("window: 1h", ", keep_s: 60", "the window of 3600 s is longer than the channel keeps events (`keep_s: 60`)"),
        ("window: 1h", ", max_age_s: 60", "longer than the channel keeps events (`max_age_s: 60`)"),
        ("window: 1h", "", ""),
    ],
)
def test_check_says_what_the_server_cannot_do(tmp_path: Path, wanted: str, more: str, why: str) -> None:
    config = tmp_path / "gateway.yaml"
    text = CONFIG.replace("PORT", str(free_port())).replace("SERVER", "nats://127.0.0.1:1").replace("MORE", more)
    config.write_text(text.replace("WANTED", wanted).replace("URL", "http://127.0.0.1:1/"))
    found = tidegate("check", str(config), "--data-dir", str(tmp_path / "data"), env={"TIDEGATE_WORKERS": "2"})
    assert found.returncode == (1 if why else 0), found.stdout
    said = " ".join(found.stdout.split())
    assert why in said
    assert not why or "brokers.default.deduplicate: the" in said


@pytest.mark.spec("ONCE-11")
@pytest.mark.usefixtures("processes")
def test_two_workers_store_what_comes_to_both_once(own_nats: servers.Server, tmp_path: Path) -> None:
    """Each of 60 events comes six times, over new connections, with a kill of the gateway in between."""
    with Subscriber() as s:
        text = CONFIG.replace("SERVER", own_nats.url).replace("MORE", "").replace("WANTED", "window: 1h")
        firsts: dict[int, set[str | None]] = {n: set() for n in range(60)}
        for _ in range(2):
            mine = text.replace("URL", s.url).replace("PORT", str(free_port()))
            with GatewayProcess(mine, tmp_path, None, "--workers", "2") as g:
                for _ in range(3):
                    for n in range(60):
                        firsts[n].add(_post(g, n).headers.get("tidegate-duplicate"))
                g.wait_until(lambda: len({r.headers["ce-id"] for r in s.requests}) == 60, 30, "the deliveries")
                g.kill()
    assert all(len(places - {None}) == 1 for places in firsts.values())
    assert len({place for places in firsts.values() for place in places - {None}}) == 60
    state = ask(own_nats.url, lambda js: js.stream_info("s")).state
    assert state.messages == 60


def _post(gateway: GatewayProcess, n: int) -> httpx.Response:
    headers = {"ce-specversion": "1.0", "ce-id": str(n), "ce-source": "/s", "ce-type": "t", "connection": "close"}
    answer = web.post(gateway.ingress(), headers=headers, verify=False)
    assert answer.status_code == 202, answer.text
    return answer
