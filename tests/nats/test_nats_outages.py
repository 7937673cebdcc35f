"""What becomes of events when a server, a stream or an account is not as it was."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from gateway_dev import servers
from gateway_testing.suites import MemoryIntake
from gateway_testing.suites.channel import Subscription, append
from gateway_testing.suites.kit import until
from gateway_testing.suites.sink import attempt, numbered, running

from gateway_core.contract.errors import Overloaded
from gateway_core.contract.event import Event
from tests.nats import test_nats_source
from tests.nats.conftest import NatsKit, pause, resume
from tests.nats.test_jetstream_channel import acknowledged, opened
from tests.nats.test_nats_sink import sink_of
from tests.nats.test_nats_source import client, ids, publish, source_of

pytestmark = pytest.mark.anyio

LIMITED = """
accounts { A { users: [{user: a, password: a}], jetstream { max_file: 20000, max_mem: 0 } } }
no_auth_user: a
"""


def of_size(size: int, events: Sequence[Event]) -> list[Event]:
    return [Event(event.attributes, b"x" * size) for event in events]


async def appended(channel: Any, events: list[Event]) -> None:
    """Appends until the channel takes them."""
    with anyio.fail_after(60):
        while True:
            try:
                await append(channel, events)
                return
            except Overloaded:
                await anyio.sleep(0.05)


@pytest.mark.spec("NT-12")
async def test_another_stream_with_the_subject_stores_no_event_of_the_channel(kit: NatsKit) -> None:
    """A sender must not get a 2xx for an event that no trigger will see."""
    async with opened(kit) as channel, client(kit.server) as js:
        await js.delete_stream(kit.name)
        await js.add_stream(name=f"{kit.name}-other", subjects=[kit.name], storage="memory")
        with pytest.raises(Overloaded):
            await append(channel, numbered(1))
        assert (await js.stream_info(f"{kit.name}-other")).state.messages == 0
        await js.delete_stream(f"{kit.name}-other")


@pytest.mark.spec("NT-12")
async def test_a_stream_that_was_deleted_is_made_again_without_triggers(
    kit: NatsKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway_nats.channel.INFO_S", 0.2)
    async with opened(kit) as channel, client(kit.server) as js:
        await js.delete_stream(kit.name)
        await appended(channel, numbered(1))
        assert (await js.stream_info(kit.name)).state.messages == 1


@pytest.mark.spec("NT-12")
async def test_the_numbers_of_a_stream_that_was_made_again_are_not_mistaken(kit: NatsKit) -> None:
    """Even if nothing was asked of the server when it happened, because nothing more has room."""
    it = Subscription()
    async with opened(kit, options={"max_in_flight": 2}, it=it) as channel, client(kit.server) as js:
        await append(channel, numbered(2))
        await it.until(2)
        stream, consumer = await js.stream_info(kit.name), await js.consumer_info(kit.name, "tidegate_it")
        await js.delete_stream(kit.name)
        await js.add_stream(stream.config)
        await js.add_consumer(kit.name, consumer.config)
        await appended(channel, numbered(2, 2))
        await it.until(4)
        assert it.ids == ["n0", "n1", "n2", "n3"]
        feed: Any = it.feed
        for event in it.events[:2]:
            feed.ack(event.position)  # deliveries of the old stream end
        assert feed.lag() == 2
        it.ack()
        assert feed.lag() == 0
        await acknowledged(kit, 0)


@pytest.mark.spec("NT-02")
@pytest.mark.usefixtures("processes")
async def test_an_account_without_room_refuses_for_now(tmp_path: Path) -> None:
    with servers.nats(tmp_path / "nats", settings=LIMITED) as server:
        kit = NatsKit(tmp_path, server)
        big = of_size(900, numbered(40))
        async with opened(kit) as channel:
            with pytest.raises(Overloaded, match="resource limits exceeded"):
                await append(channel, big)
            async with running(sink_of(kit, subject=kit.name)) as sink:
                outcome = await attempt(sink, big[0])
                assert (outcome.delivered, outcome.retry) == (False, True)


@pytest.mark.spec("NT-05")
async def test_a_server_that_hangs_under_load_is_given_up(
    tmp_path: Path, own_nats: servers.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway_nats.connect.PING_S", 0.5)
    kit = NatsKit(tmp_path, own_nats)
    answers: list[object] = []
    async with opened(kit) as channel:
        pause(own_nats)
        try:
            for event in of_size(900_000, numbered(40)):
                channel.append([event], answers.append)
            await until(lambda: channel.info()["error"] is not None, "the outage to be noticed")
            assert len(answers) == 40
        finally:
            resume(own_nats)
        await appended(channel, numbered(1))
        assert channel.info()["error"] is None


@pytest.mark.spec("NT-10")
async def test_bytes_that_are_no_headers_hold_up_nothing(kit: NatsKit) -> None:
    """A server stores what any client sends as headers."""
    intake = MemoryIntake()
    sent = [b"abcd", b"NATS/1.0", b"NATS/1.0\r\n\r\n", b"NATS/1.0 \xff\xff\r\nx\r\n\r\n", b"X" * 40]
    sent += [b"NATS/1.0\r\na\xff:\xff\r\n:\r\nce-id:\r\n\r\n", b"NATS/1.0 408\r\n\r\n"]

    def publish_raw() -> None:
        with socket.create_connection(("127.0.0.1", kit.server.port), 30) as raw:
            raw.sendall(b'CONNECT {"verbose":false,"headers":true}\r\n')
            for block in sent:
                raw.sendall(b"HPUB %s.in %d %d\r\n%s\r\n" % (kit.name.encode(), len(block), len(block), block))
            raw.sendall(b"PING\r\n")
            while b"PONG" not in raw.recv(4096):
                pass

    async with client(kit.server) as js, test_nats_source.running(source_of(kit), intake) as source:
        await anyio.to_thread.run_sync(publish_raw)
        await publish(js, f"{kit.name}.in", "next")
        await until(lambda: "next" in ids(intake.safe), "the next event")
        await until(lambda: source.info()["lag"] == 0, "all to be settled")
        assert source.info()["reconnects"] == 0
