"""The channel `jetstream` against real servers: what the suite does not ask."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway_nats.trim import settled_before
from gateway_testing.link import Link
from gateway_testing.suites.channel import Subscription, append, ids
from gateway_testing.suites.kit import until
from gateway_testing.suites.sink import numbered

from gateway_core.contract.capabilities import Found
from gateway_core.contract.errors import Overloaded, Refused, StartError
from gateway_core.contract.event import Event
from gateway_core.contract.filters import attributes_filter
from gateway_core.contract.start_position import StartPosition
from tests.command_line import tidegate
from tests.nats.conftest import NatsKit
from tests.nats.test_nats_source import client

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def opened(kit: NatsKit, port: int = 0, options: Any = None, **subscriptions: Subscription) -> AsyncIterator[Any]:
    given = {"servers": f"nats://127.0.0.1:{port or kit.server.port}", "stream": kit.name, "subject": kit.name}
    channel = kit.channel("jetstream", {"ack_wait_s": 2, **given, **(options or {})})
    async with anyio.create_task_group() as tasks:
        await channel.start(tasks)
        for name, subscription in subscriptions.items():
            subscription.attach(channel, name)
        await channel.open()
        try:
            yield channel
        finally:
            with anyio.CancelScope(shield=True):
                await channel.stop()
        tasks.cancel_scope.cancel()


async def acknowledged(kit: NatsKit, pending: int) -> None:
    async with client(kit.server) as js:
        while (await js.consumer_info(kit.name, "tidegate_it")).num_ack_pending != pending:  # noqa: ASYNC110
            await anyio.sleep(0.01)


@pytest.mark.spec("NT-13")
async def test_after_a_crash_events_come_in_order(kit: NatsKit) -> None:
    """Those that were in flight are redelivered only after `ack_wait_s`: later ones wait for them."""
    with Link("127.0.0.1", kit.server.port) as link:
        before = Subscription()
        async with opened(kit, link.port, it=before) as channel:
            await append(channel, numbered(10))
            await before.until(10)
            for n in (0, 1, 3):
                before.ack(before.events[n].position)
            await acknowledged(kit, 7)
            link.cut()  # it can give nothing back
    async with opened(kit) as channel:
        await append(channel, numbered(3, 10))
    after = Subscription()
    async with opened(kit, it=after):
        await after.until(10)
    assert after.ids == ["n2", *ids(4, 13)]


@pytest.mark.spec("NT-12")
async def test_a_consumer_deleted_after_a_crash_loses_nothing_in_flight(kit: NatsKit) -> None:
    with Link("127.0.0.1", kit.server.port) as link:
        before = Subscription()
        async with opened(kit, link.port, {"ack_wait_s": 30}, it=before) as channel:
            await append(channel, numbered(10))
            await before.until(10)
            before.ack(before.events[0].position)
            await acknowledged(kit, 9)
            link.cut()
    after = Subscription()
    async with opened(kit, options={"ack_wait_s": 30}, it=after) as channel, client(kit.server) as js:
        await append(channel, numbered(3, 10))
        await until(lambda: after.feed.lag() >= 3, "what waits behind those in flight")  # type: ignore[union-attr,operator]
        await js.delete_consumer(kit.name, "tidegate_it")
        await after.until(12)
    assert after.ids == ids(1, 13)


@pytest.mark.spec("NT-13")
async def test_a_lost_connection_repeats_nothing(kit: NatsKit) -> None:
    it = Subscription()
    with Link("127.0.0.1", kit.server.port) as link:
        async with opened(kit, link.port, it=it) as channel, opened(kit) as other:
            await append(other, numbered(10))
            await it.until(10)
            link.cut()
            await until(lambda: it.feed.fault is not None, "the outage to be noticed")  # type: ignore[union-attr]
            it.ack()
            await append(other, numbered(5, 10))
            link.restore()
            await it.until(15)
            it.ack()
            await acknowledged(kit, 0)
            assert it.ids == ids(0, 15)
            assert channel.info()["error"] is None


async def test_what_is_appended_as_the_connection_ends_waits_for_the_next(kit: NatsKit) -> None:
    """Here whoever was told that an event was not stored tries at once."""
    answers: list[BaseException | None] = []
    with Link("127.0.0.1", kit.server.port) as link:
        async with opened(kit, link.port) as channel:

            def told(error: BaseException | None) -> None:
                answers.append(error)
                channel.append(numbered(1), answers.append)

            link.cut()  # nobody has noticed yet
            channel.append(numbered(1), told)
            await until(lambda: len(answers) == 1, "the outage to be noticed")
            link.restore()
            await until(lambda: len(answers) == 2, "the second append to be answered")
    assert isinstance(answers[0], Overloaded)
    assert answers[1] is None


@pytest.mark.usefixtures("real_time")
async def test_what_comes_again_while_it_is_in_flight_is_not_offered_twice(kit: NatsKit) -> None:
    """An outage that is longer than `ack_wait_s`."""
    it = Subscription()
    with Link("127.0.0.1", kit.server.port) as link:
        async with opened(kit, link.port, options={"ack_wait_s": 1}, it=it) as channel:
            await append(channel, numbered(5))
            await it.until(5)
            link.cut()
            await anyio.sleep(1.2)
            link.restore()
            feed: Any = it.feed
            await until(lambda: feed._puller.redelivered == 5, "the server to send them again")
            await append(channel, numbered(1, 5))
            await it.until(6)
            assert it.ids == ids(0, 6)
            it.ack()
            await acknowledged(kit, 0)


async def test_what_no_trigger_wants_is_acknowledged(kit: NatsKit) -> None:
    it = Subscription(filter=attributes_filter({"id": "n3"}))
    async with opened(kit, it=it) as channel:
        await append(channel, numbered(6))
        await it.until(1)
        await acknowledged(kit, 1)
        feed: Any = it.feed
        assert feed.lag() == 1


@pytest.mark.spec("NT-13")
async def test_gateways_share_the_events(kit: NatsKit) -> None:
    one, two = Subscription(room=20), Subscription(room=20)
    options = {"max_in_flight": 40}
    async with opened(kit, options=options, it=one) as first, opened(kit, options=options, it=two) as second:
        for n in range(0, 200, 2):
            await append(first, numbered(1, n))
            await append(second, numbered(1, n + 1))
            for subscription in (one, two):
                subscription.ack()
                subscription.resume()
        while len(one.ids) + len(two.ids) < 200:
            await anyio.sleep(0.01)
            for subscription in (one, two):
                subscription.ack()
                subscription.resume()
    assert sorted([*one.ids, *two.ids]) == sorted(ids(0, 200))


async def test_what_is_not_an_event_is_rejected(kit: NatsKit) -> None:
    it = Subscription()
    async with opened(kit, it=it) as channel, client(kit.server) as js:
        await js.publish(kit.name, b"{nonsense")
        await append(channel, numbered(1))
        await it.until(1)
        (event,) = it.rejected
        assert (event.data, event.attributes["source"]) == (b"{nonsense", f"nats:/{kit.name}/{kit.name}")
        it.feed.ack(event.position)  # type: ignore[union-attr]
        it.ack()
        await acknowledged(kit, 0)


async def test_key_and_data_come_out_as_they_went_in(kit: NatsKit) -> None:
    base = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
    events = [
        Event(base, None, key=b"\x00\xff"),
        Event(base, b""),
        Event({**base, "datacontenttype": "text/plain"}, None),
        Event({**base, "datacontenttype": "text/plain"}, b""),
        Event(base, b'{"n": 1}', json_data=True),
    ]
    it = Subscription()
    async with opened(kit, it=it) as channel:
        await append(channel, events)
        await it.until(5)
    assert it.events == events
    assert [event.json_data for event in it.events] == [False] * 4 + [True]


async def test_a_full_stream_refuses_for_now_and_drops_nothing(kit: NatsKit) -> None:
    big = [Event(event.attributes, b"x" * 900) for event in numbered(8)]
    it = Subscription(room=0)
    async with opened(kit, options={"max_bytes": 4096}, it=it) as channel, client(kit.server) as js:
        with pytest.raises(Overloaded, match="maximum bytes"):
            await append(channel, big)
        state = (await js.stream_info(kit.name)).state
        assert (state.first_seq, state.messages) == (1, 3)
        with pytest.raises(Refused, match="max_payload"):
            await append(channel, [Event(big[0].attributes, b"x" * (1 << 20))])


async def test_only_what_all_have_settled_may_be_removed(kit: NatsKit) -> None:
    one, two = Subscription(), Subscription()
    async with opened(kit, it=one, other=two) as channel, client(kit.server) as js:
        assert await settled_before(js, kit.name, 0) == 0
        await append(channel, numbered(10))
        await one.until(10)
        await two.until(10)
        one.ack()
        for event in two.events[:6]:
            two.ack(event.position)
        await acknowledged(kit, 0)
        with anyio.fail_after(30):
            while await settled_before(js, kit.name, 0) != 7:  # noqa: ASYNC110
                await anyio.sleep(0.01)
        assert await settled_before(js, kit.name, 3600) == 1
        await js.purge_stream(kit.name, seq=7)
        assert (await js.stream_info(kit.name)).state.first_seq == 7


@pytest.mark.spec("NT-08")
async def test_a_stream_that_is_different_is_a_fault(kit: NatsKit) -> None:
    async with client(kit.server) as js:
        await js.add_stream(name=kit.name, subjects=[kit.name, "more"], discard="new")
        channel = kit.channel("jetstream", {"servers": kit.server.url, "stream": kit.name, "subject": kit.name})
        async with anyio.create_task_group() as tasks:
            with pytest.raises(StartError, match="is not as configured: `subjects` is more"):
                await channel.start(tasks)
            await channel.stop()


@pytest.mark.spec("NT-14")
@pytest.mark.usefixtures("processes")
def test_a_sink_that_reads_its_channel_needs_another_one(tmp_path: Path) -> None:
    file = tmp_path / "tidegate.yaml"
    file.write_text(
        "brokers: {default: {ingress: [http: {listen: '127.0.0.1:0'}], channel: jetstream}}\n"
        "triggers: {table: {subscriber: {spark: {path: table}}}}\n"
    )
    done = tidegate("check", file)
    assert done.returncode == 1
    said = " ".join((done.stdout + done.stderr).split())
    assert "the sink `spark` reads its channel itself, which the channel `jetstream`" in said
    assert "use the channel `log` or `kafka`" in said


@pytest.mark.spec("NT-14")
@pytest.mark.usefixtures("processes")
def test_an_order_that_several_gateways_do_not_keep_is_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "tidegate.yaml"
    file.write_text(
        "brokers: {default: {ingress: [http: {listen: '127.0.0.1:0'}], channel: jetstream, delivery: {order: key}}}\n"
        "triggers: {any: {subscriber: http://127.0.0.1:1/, delivery: {order: unordered}}, ordered: {subscriber: http://127.0.0.1:1/}}\n"
    )
    done = tidegate("check", file, "--json")
    assert done.returncode == 0
    (warning,) = json.loads(done.stdout)["warnings"]
    assert warning["path"] == "triggers.ordered"
    assert "`order: key` holds only while one gateway with one worker" in warning["message"]


async def test_past_events_are_found_with_their_delivery_state(kit: NatsKit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway_nats.find.WINDOW", 4)
    begun = time.time_ns()
    it = Subscription(room=8)
    async with opened(kit, options={"max_in_flight": 8}, it=it) as channel, client(kit.server) as js:
        assert await channel.find("n1", None) == Found([], 0)
        await append(channel, numbered(10))
        await js.publish(kit.name, b"{nonsense")
        await append(channel, [numbered(1, 1)[0].with_attributes(source="/other")])
        await it.until(8)
        it.ack(it.events[0].position)
        steps: list[list[int]] = []
        rest: Any = None
        while not steps or rest is not None:
            found = await channel.find("n1", "/tidegate/suite", rest, 0)
            steps.append([event.position for event in found.events])
            rest = found.rest
        assert steps == [[], [], [2]]
        assert [event.position for event in (await channel.find("n1", None, None, 9)).events] == [12]
        stored = time.time_ns()
        await anyio.sleep(0.01)
        (event,) = (await channel.find("n1", None, None, 9)).events
        assert begun <= event.received_ns <= stored, "when it was stored, not when it was found"
        feed: Any = it.feed
        states = {position: feed.delivery_state(position) for position in (1, 2, 8, 12)}
        assert states == {1: "passed", 2: "pending", 8: "pending", 12: "unread"}
        assert (await js.stream_info(kit.name)).state.consumer_count == 1, "what searched is gone"


@pytest.mark.spec("AGAIN-03", "AGAIN-25")
async def test_a_start_that_the_stream_has_passed_says_so(kit: NatsKit) -> None:
    async with opened(kit) as channel:
        await append(channel, numbered(5))
        async with client(kit.server) as js:
            await js.purge_stream(kit.name, seq=3)
        late, exact = Subscription(start=StartPosition.at_time(1)), Subscription(start=StartPosition.at_time(2**62))
        for name, subscription in {"late": late, "exact": exact}.items():
            subscription.attach(channel, name)
            await channel.joined(name)
        await late.until(3)
        feeds: Any = late.feed, exact.feed
        assert "had kept nothing before" in feeds[0].started_late
        assert feeds[1].started_late is None
        said = feeds[0].started_late
    async with opened(kit) as channel:  # also after a restart
        again = Subscription(start=StartPosition.at_time(1))
        again.attach(channel, "late")
        await channel.joined("late")
        feed: Any = again.feed
        assert feed.started_late == said
