"""What the source and the sink do when the server dies, blocks, refuses, or loses a queue."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from gateway_dev.rabbitmq import RabbitMq
from gateway_testing.suites import Kit, MemoryIntake
from gateway_testing.suites.kit import until
from gateway_testing.suites.sink import Attempts, attempt, running

from gateway_core.contract.errors import StartError
from gateway_core.contract.interfaces import Sink, Source
from tests.rabbit_lab import Lab, message_of, numbered, proxied

pytestmark = pytest.mark.anyio


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return Kit(tmp_path)


@asynccontextmanager
async def reading(source: Source) -> AsyncIterator[MemoryIntake]:
    """A started source and its intake; stopped at the end."""
    intake = MemoryIntake()
    async with anyio.create_task_group() as tasks:
        await source.start(intake, tasks)
        yield intake
        with anyio.fail_after(60):
            await source.stop()
        tasks.cancel_scope.cancel()


def ids(intake: MemoryIntake) -> list[str]:
    return [str(event.attributes["id"]) for event in intake.events]


def info(source: Source) -> dict[str, Any]:
    found: dict[str, Any] = source.info()  # type: ignore[attr-defined]
    return found


async def thread(call: Callable[..., Any], *args: Any) -> Any:
    return await anyio.to_thread.run_sync(call, *args)


# -- the server is killed -----------------------------------------------------------------------------------------


@pytest.mark.area(name="rabbitmq_faults")
@pytest.mark.spec("RQ-06")
async def test_a_killed_server_loses_nothing(own_rabbitmq: RabbitMq, lab: Lab, kit: Kit, name: str) -> None:
    """kill -9 while events are on their way: all that were confirmed are read, whatever the source had acknowledged."""
    options = {"server": f"127.0.0.1:{own_rabbitmq.port}", "queue": name}
    source, sink = kit.source("rabbitmq", options), kit.sink("rabbitmq", options)
    async with reading(source) as intake, running(sink):
        before, after = Attempts(), Attempts()
        for number in range(200):
            before.send(sink, numbered(number))
        await until(lambda: len(intake.events) > 20, "the first events")
        await until(lambda: lab.on_disk(name), "the queue to be one that survives")
        for number in range(200, 400):
            before.send(sink, numbered(number))
        await until(lambda: len(intake.events) > 250, "some of the later events")
        await thread(own_rabbitmq.kill)
        outcomes = await before.ended()
        assert all(o.delivered or o.retry for o in outcomes)
        for number in range(400, 420):
            after.send(sink, numbered(number), 60)
        await thread(own_rabbitmq.start)
        assert all(o.delivered for o in await after.ended())
        wanted = {f"n{n}" for n, o in enumerate(outcomes) if o.delivered} | {f"n{n}" for n in range(400, 420)}
        await until(lambda: wanted <= set(ids(intake)), "all that was confirmed")
        assert info(source)["connections_lost"] == 1
        assert info(source)["error"] is None


@pytest.mark.spec("RQ-01", "RQ-06")
async def test_what_was_not_safe_comes_again_after_a_cut(own_rabbitmq: RabbitMq, lab: Lab, kit: Kit, name: str) -> None:
    with proxied(own_rabbitmq.port) as proxy:
        source = kit.source("rabbitmq", {"server": f"127.0.0.1:{proxy.port}", "queue": name})
        async with reading(source) as intake:
            intake.hold = True
            await thread(lab.publish, name, *(message_of(numbered(n)) for n in range(10)))
            await until(lambda: len(intake.events) > 0 and info(source)["unacknowledged"] == 10, "the events")
            await thread(proxy.cut)
            await until(lambda: info(source)["unacknowledged"] == 0, "the loss to be noticed")
            intake.release()  # too late: these answers count for nothing
            intake.events.clear()
            await until(lambda: len(set(ids(intake))) == 10, "all of them, again")
            assert info(source)["redelivered"] == 10
            assert info(source)["most_deliveries"] == 2


@pytest.mark.spec("RQ-06")
async def test_a_deleted_queue_is_declared_anew(own_rabbitmq: RabbitMq, lab: Lab, kit: Kit, name: str) -> None:
    lab.exchange(name, "topic")
    options = {"queue": name, "bindings": [{"exchange": name, "routing_key": "order.*"}]}
    source = kit.source("rabbitmq", {"server": f"127.0.0.1:{own_rabbitmq.port}", **options})
    async with reading(source) as intake:
        await thread(lab.delete, name)
        await until(lambda: info(source)["connections_lost"] == 1 and info(source)["error"] is None, "a new queue")
        await thread(lambda: lab.publish("order.x", message_of(numbered(1)), exchange=name))
        await until(lambda: ids(intake) == ["n1"], "an event through the new binding")


# -- a full, a missing and a blocked server ------------------------------------------------------------------------


@pytest.mark.spec("RQ-09")
async def test_while_the_server_blocks_nothing_is_published(
    own_rabbitmq: RabbitMq, lab: Lab, kit: Kit, name: str
) -> None:
    lab.queue(name)
    sink = kit.sink("rabbitmq", {"server": f"127.0.0.1:{own_rabbitmq.port}", "queue": name})
    async with running(sink):
        try:
            await thread(own_rabbitmq.evaluate, "vm_memory_monitor:set_vm_memory_high_watermark({absolute, 1}).")
            await until(lambda: _blocked(own_rabbitmq), "the alarm")
            attempts = Attempts()
            attempts.send(sink, numbered(0), 0.5)  # the server says that it blocks once somebody publishes
            (first,) = await attempts.ended()
            assert (first.delivered, first.retry) == (False, True)
            later = Attempts()
            later.send(sink, numbered(1), 0.3)
            (second,) = await later.ended()
            assert (second.delivered, second.retry) == (False, True)
            assert "the server blocks publishers (low on memory)" in second.reason
            last = Attempts()
            last.send(sink, numbered(2), 60)
        finally:
            await thread(own_rabbitmq.evaluate, "vm_memory_monitor:set_vm_memory_high_watermark(0.4).")
        assert [o.delivered for o in await last.ended()] == [True]
    found = [m.headers["cloudEvents_id"] for m in await thread(lab.take, name)]
    assert found == ["n0", "n2"], "n1 was never published"


def _blocked(server: RabbitMq) -> bool:
    return "memory" in server.evaluate("rabbit_alarm:get_alarms().")


@pytest.mark.spec("RQ-08")
@pytest.mark.parametrize(("unroutable", "retry"), [("retry", True), ("dead_letter", False)])
async def test_a_message_that_reaches_no_queue_has_failed(
    own_rabbitmq: RabbitMq, lab: Lab, kit: Kit, name: str, unroutable: str, retry: bool
) -> None:
    lab.exchange(name, "topic")
    lab.queue(name)
    lab.bind(name, name, "t.wanted")
    options = {"exchange": name, "routing_key": "t.{subject}", "unroutable": unroutable}
    sink = kit.sink("rabbitmq", {"server": f"127.0.0.1:{own_rabbitmq.port}", **options})
    async with running(sink):
        attempts = Attempts()
        for number in range(20):
            attempts.send(sink, numbered(number, subject="lost" if number % 3 == 0 else "wanted"))
        attempts.send(sink, numbered(7, subject="lost"))  # the id of one that arrives
        outcomes = await attempts.ended()
        lost = [n for n, o in enumerate(outcomes) if not o.delivered]
        assert lost == [0, 3, 6, 9, 12, 15, 18, 20]
        assert {(o.retry, o.code) for o in outcomes if not o.delivered} == {(retry, 312)}
        assert "NO_ROUTE: no queue gets messages with the routing key 't.lost'" in outcomes[0].reason


@pytest.mark.spec("RQ-08")
async def test_a_returned_message_is_not_taken_for_one_like_it(
    own_rabbitmq: RabbitMq, lab: Lab, kit: Kit, name: str
) -> None:
    """Events with one id and one routing key: their headers decide which of them a queue gets."""
    lab.exchange(name, "headers")
    lab.queue(name)
    lab.bind(name, name, "", cloudEvents_subject="wanted")
    options = {"exchange": name, "routing_key": "k"}
    async with running(kit.sink("rabbitmq", {"server": f"127.0.0.1:{own_rabbitmq.port}", **options})) as sink:
        attempts = Attempts()
        for subject in ("wanted", "lost", "wanted", "lost"):
            attempts.send(sink, numbered(1, subject=subject))
        assert [o.delivered for o in await attempts.ended()] == [True, False, True, False]


async def test_a_message_that_may_get_lost_is_delivered(own_rabbitmq: RabbitMq, lab: Lab, kit: Kit, name: str) -> None:
    sink = kit.sink("rabbitmq", {"server": f"127.0.0.1:{own_rabbitmq.port}", "queue": name, "mandatory": False})
    async with running(sink):
        attempts = Attempts()
        attempts.send(sink, numbered(1))
        assert [o.delivered for o in await attempts.ended()] == [True]


# -- faults in plain words ------------------------------------------------------------------------------------------


@pytest.mark.spec("RQ-07", "RQ-12")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"password": "wr0ng"}, "the server refuses the credentials: ACCESS_REFUSED"),
        ({"vhost": "nowhere"}, "the server refuses the virtual host: NOT_ALLOWED - vhost nowhere not found"),
        ({"login": "external", "tls": None}, "`login: external` needs `cert_file` in `tls`"),
    ],
    ids=["password", "vhost", "external"],
)
async def test_a_login_that_is_refused_says_why(
    own_rabbitmq: RabbitMq, kit: Kit, name: str, options: dict[str, Any], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    given = {"server": f"127.0.0.1:{own_rabbitmq.port}", "queue": name, **options}
    for build in (kit.source, kit.sink):
        with pytest.raises((StartError, ValueError)) as found:
            await _started(build, given)
        assert said in str(found.value)
        assert "wr0ng" not in str(found.value) + caplog.text


async def _started(build: Callable[[str, Any], Source | Sink], options: dict[str, Any]) -> None:
    """Builds and starts a source or a sink that does not start."""
    component = build("rabbitmq", options)
    try:
        async with anyio.create_task_group() as tasks:
            try:
                await _start(component, tasks)
            finally:
                await component.stop()
    except BaseExceptionGroup as group:
        raise _leaf(group) from None


def _leaf(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _start(component: Source | Sink, tasks: Any) -> None:
    if hasattr(component, "send"):
        await component.start(tasks)  # type: ignore[call-arg, arg-type]
    else:
        await component.start(MemoryIntake(), tasks)  # type: ignore[call-arg, arg-type]


@pytest.mark.spec("RQ-07")
async def test_a_queue_that_is_not_as_configured_is_a_fault(
    own_rabbitmq: RabbitMq, lab: Lab, kit: Kit, name: str
) -> None:
    lab.queue(name, "classic")
    lab.exchange(name, "fanout")
    server = {"server": f"127.0.0.1:{own_rabbitmq.port}"}
    with pytest.raises(StartError, match=r"'x-queue-type' for queue .* received 'quorum' but current is 'classic'"):
        await _started(kit.source, {**server, "queue": name})
    with pytest.raises(StartError, match=r"the exchange .* is not as configured: .* received 'topic' but current is"):
        await _started(kit.sink, {**server, "exchange": name, "exchange_type": "topic"})


@pytest.mark.spec("RQ-07")
async def test_a_queue_that_is_missing_is_waited_for(own_rabbitmq: RabbitMq, lab: Lab, kit: Kit, name: str) -> None:
    options = {"server": f"127.0.0.1:{own_rabbitmq.port}", "queue": name, "declare": False}
    source = kit.source("rabbitmq", options)
    async with anyio.create_task_group() as tasks:
        intake = MemoryIntake()
        tasks.start_soon(source.start, intake, tasks)
        await until(lambda: "NOT_FOUND - no queue" in str(info(source)["error"]), "the fault in the status")
        await thread(lab.queue, name)
        await thread(lab.publish, name, message_of(numbered(1)))
        await until(lambda: ids(intake) == ["n1"], "the event")
        await source.stop()
        tasks.cancel_scope.cancel()


@pytest.mark.spec("RQ-07")
def test_check_connect_says_why(own_rabbitmq: RabbitMq, lab: Lab, name: str) -> None:
    from gateway_rabbitmq.config import RabbitSinkConfig, RabbitSourceConfig

    server = f"127.0.0.1:{own_rabbitmq.port}"
    found = RabbitSourceConfig(server=[server], queue=name)
    assert found.end == f"RabbitMQ at amqp://{server} as guest"
    found.connect(10)  # the queue would be declared
    for config, said in (
        (RabbitSourceConfig(server=[server], queue=name, declare=False), "NOT_FOUND - no queue"),
        (RabbitSinkConfig(server=[server], queue=name), "NOT_FOUND - no queue"),
        (RabbitSinkConfig(server=[server], exchange=name), "NOT_FOUND - no exchange"),
        (RabbitSinkConfig(server=[server], queue=name, username="x", password="y"), "refuses the credentials"),
        (RabbitSinkConfig(server=["127.0.0.1:1"], exchange=name), "Connect call failed"),
    ):
        with pytest.raises(OSError, match=said):
            config.connect(10)


@pytest.mark.spec("RQ-07")
async def test_tls(own_rabbitmq: RabbitMq, lab: Lab, kit: Kit, name: str) -> None:
    """Both directions by TLS; a certificate of a stranger is a fault in the status, and nothing is sent."""
    options = {"server": f"localhost:{own_rabbitmq.tls_port}", "queue": name}
    tls = {"ca_file": str(own_rabbitmq.folder / "ca.pem")}
    source = kit.source("rabbitmq", {**options, "tls": tls})
    async with reading(source) as intake, running(kit.sink("rabbitmq", {**options, "tls": tls})) as sink:
        assert (await attempt(sink, numbered(1))).delivered
        await until(lambda: ids(intake) == ["n1"], "the event")
        assert source.address == f"amqps://localhost:{own_rabbitmq.tls_port}?queue={name}"
    async with running(kit.sink("rabbitmq", {**options, "tls": {}})) as sink:
        outcome = await attempt(sink, numbered(2), 0.5)
        assert (outcome.delivered, outcome.retry) == (False, True)
        assert "certificate verify failed" in outcome.reason
