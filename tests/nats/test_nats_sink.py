"""The sink `nats` against real servers: what the suites do not ask."""

from __future__ import annotations

from typing import Any

import nats
import pytest
from gateway_testing.suites.kit import PATIENCE_S
from gateway_testing.suites.sink import attempt, numbered, running
from nats.aio.msg import Msg
from nats.js import JetStreamContext, api
from pydantic import ValidationError

from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Outcome, Sink
from tests.faults.proxy import Proxy
from tests.nats.conftest import NatsKit
from tests.nats.test_nats_source import client

pytestmark = pytest.mark.anyio


def sink_of(kit: NatsKit, **options: Any) -> Any:
    return kit.sink("nats", {"servers": kit.server.url, "subject": f"{kit.name}.in", **options})


async def make(js: JetStreamContext, kit: NatsKit) -> None:
    await js.add_stream(name=kit.name, subjects=[f"{kit.name}.>"], storage=api.StorageType.MEMORY)


async def delivered(sink: Sink, *events: Event) -> list[Outcome]:
    return [await attempt(sink, event) for event in events]


@pytest.mark.spec("NT-07")
async def test_a_repeat_is_stored_once_but_nothing_else_is_dropped(kit: NatsKit) -> None:
    (event,) = numbered(1)
    letters = [event.with_attributes(tidegatetrigger=name) for name in ("one", "two")]
    async with client(kit.server) as js:
        await make(js, kit)
        async with running(sink_of(kit)) as sink, running(sink_of(kit, subject=f"{kit.name}.out")) as other:
            outcomes = [*await delivered(sink, event, event, *letters), *await delivered(other, event)]
            assert all(outcome.delivered for outcome in outcomes)
        assert (await js.stream_info(kit.name)).state.messages == 4
        stored = await js.get_msg(kit.name, 1)
        assert (stored.headers or {})["Nats-Msg-Id"] == f"/tidegate/suite n0 t {kit.name}.in"


@pytest.mark.spec("NT-07")
async def test_an_event_of_another_type_with_the_same_source_and_id_is_stored(kit: NatsKit) -> None:
    (event,) = numbered(1)
    async with client(kit.server) as js:
        await make(js, kit)
        async with running(sink_of(kit)) as sink:
            other = event.with_attributes(type="another")
            assert all(outcome.delivered for outcome in await delivered(sink, event, other, other))
        assert (await js.stream_info(kit.name)).state.messages == 2


async def test_without_message_ids_repeats_are_stored(kit: NatsKit) -> None:
    (event,) = numbered(1)
    async with client(kit.server) as js:
        await make(js, kit)
        async with running(sink_of(kit, message_id=False)) as sink:
            await delivered(sink, event, event)
        assert (await js.stream_info(kit.name)).state.messages == 2


@pytest.mark.spec("NT-04")
async def test_it_writes_structured_mode_unless_told_otherwise(kit: NatsKit) -> None:
    (event,) = numbered(1)
    async with client(kit.server) as js:
        await make(js, kit)
        async with running(sink_of(kit)) as sink:
            await delivered(sink, event)
        stored = await js.get_msg(kit.name, 1)
        assert (stored.headers or {})["Content-Type"].startswith("application/cloudevents+json")
        assert b'"specversion":"1.0"' in (stored.data or b"")


async def test_a_subject_is_made_of_attributes(kit: NatsKit) -> None:
    event = numbered(1)[0].with_attributes(type="com.example.order", subject="a b*>$..c.")
    async with client(kit.server) as js:
        await make(js, kit)
        sink = sink_of(kit, subject=f"{kit.name}.{{type}}.{{subject}}")
        assert sink.preview(event).url == f"{kit.server.url}/{kit.name}.com.example.order.a_b____.c_"
        async with running(sink):
            assert [o.delivered for o in await delivered(sink, event)] == [True]
            outcome = (await delivered(sink, event.with_attributes(subject="")))[0]
            assert (outcome.retry, "not a valid subject" in outcome.reason) == (False, True)
        assert (await js.get_msg(kit.name, 1)).subject == f"{kit.name}.com.example.order.a_b____.c_"


@pytest.mark.spec("NT-15")
@pytest.mark.parametrize("subject", ["{type}", "a.*", "a.>", "a b", "a..b", ".a", "a.", "{Type}.a", ""])
def test_a_template_can_not_name_other_subjects(kit: NatsKit, subject: str) -> None:
    from gateway_nats.config import NatsSinkConfig

    with pytest.raises(ValidationError, match="subject"):
        NatsSinkConfig.model_validate({"subject": subject})


@pytest.mark.spec("NT-02")
async def test_what_is_too_large_is_not_retried_and_disturbs_nobody(kit: NatsKit) -> None:
    small, large = numbered(2)
    large = Event(large.attributes, b"x" * (1 << 20))
    async with client(kit.server) as js:
        await make(js, kit)
        async with running(sink_of(kit)) as sink:
            one, two = await delivered(sink, large, small)
        assert (one.delivered, one.retry, "max_payload" in one.reason) == (False, False, True)
        assert two.delivered


@pytest.mark.spec("NT-02")
async def test_no_stream_is_retried(kit: NatsKit) -> None:
    (event,) = numbered(1)
    async with running(sink_of(kit)) as sink:
        (outcome,) = await delivered(sink, event)
        assert (outcome.delivered, outcome.retry, outcome.code) == (False, True, 503)
    async with running(sink_of(kit, stream="elsewhere")) as sink, client(kit.server) as js:
        await make(js, kit)
        (outcome,) = await delivered(sink, event)
        assert (outcome.delivered, outcome.retry) == (False, False), "another stream has the subject"


@pytest.mark.spec("NT-17")
@pytest.mark.usefixtures("real_time")
async def test_an_answer_that_comes_late_does_not_end_the_connection(kit: NatsKit) -> None:
    first, second = numbered(2)
    with Proxy(kit.server.port) as proxy:
        slow = sink_of(kit, servers=f"nats://127.0.0.1:{proxy.port}", jetstream=False, request_timeout_s=1)
        async with running(slow) as sink:
            proxy.stall()
            outcome = await attempt(sink, first, 2)
            assert (outcome.delivered, outcome.retry) == (False, True)
            proxy.heal()
            assert (await attempt(sink, second)).delivered
        assert proxy.accepted == 1


async def test_an_answer_of_somebody_else_is_no_acknowledgement(kit: NatsKit) -> None:
    nc = await nats.connect(kit.server.url)

    async def answer(msg: Msg) -> None:
        await msg.respond(b"thanks")

    await nc.subscribe(f"{kit.name}.in", cb=answer)
    await nc.flush()
    async with running(sink_of(kit)) as sink:
        (outcome,) = await delivered(sink, *numbered(1))
        assert (outcome.delivered, outcome.retry) == (False, True)
    await nc.close()


@pytest.mark.spec("NT-08")
async def test_it_makes_the_stream_that_the_config_describes(kit: NatsKit) -> None:
    create = {"subjects": f"{kit.name}.>", "storage": "memory", "max_age_s": 60, "duplicates_s": 5}
    async with running(sink_of(kit, stream=kit.name, create=create)) as sink, client(kit.server) as js:
        assert (await delivered(sink, *numbered(1)))[0].delivered
        config = (await js.stream_info(kit.name)).config
        assert (config.max_age, config.duplicate_window, config.storage) == (60, 5, "memory")
    async with running(sink_of(kit, stream=kit.name, create=create)):
        pass  # it is as described


@pytest.mark.spec("NT-11")
async def test_core_nats_delivers_to_whoever_listens(kit: NatsKit) -> None:
    nc = await nats.connect(kit.server.url)
    subscription = await nc.subscribe(f"{kit.name}.in")
    await nc.flush()
    async with running(sink_of(kit, jetstream=False)) as sink:
        assert all(o.delivered for o in await delivered(sink, *numbered(3)))
    got = [await subscription.next_msg(PATIENCE_S) for _ in range(3)]
    assert all(b'"id":"n' in msg.data and "Nats-Msg-Id" not in (msg.headers or {}) for msg in got)
    await nc.close()
