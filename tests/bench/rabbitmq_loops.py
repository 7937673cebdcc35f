"""RabbitMQ in and out: CPU of a gateway per event, beside a loop on aio-pika that a person would write by hand.

    python tests/bench/rabbitmq_loops.py [--rounds 3] [--events 20000] [--json FILE]

All cases are interleaved in rounds, and medians are shown. Both sides do the same work in the same run: `out` publishes
events, persistent and with confirms, and waits for these; `in` consumes a full queue and acknowledges. The gateway's
figures are those of its process, its bridges included: HTTP or a file at the other end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aio_pika
import anyio
from gateway_dev import servers
from gateway_testing.suites import Kit, MemoryIntake

from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Outcome

HERE = Path(__file__).parent
WINDOW = 500
"""Messages in flight, on both sides."""
ATTRIBUTES = {
    "specversion": "1.0",
    "id": "0",
    "source": "/bench/rabbitmq",
    "type": "com.example.bench",
    "subject": "order-1",
    "time": "2026-01-31T08:00:00Z",
    "datacontenttype": "application/json",
}
BODY = b'{"total": 129, "currency": "EUR", "items": [1, 2, 3, 4], "note": "' + b"x" * 180 + b'"}'
TARGETS = {"RabbitMQ sink": "<= 1.5x aio-pika", "RabbitMQ source": "<= 1.5x aio-pika"}


def event(number: int) -> Event:
    return Event({**ATTRIBUTES, "id": str(number)}, BODY)


def message(number: int) -> aio_pika.Message:
    headers: dict[str, Any] = {f"cloudEvents_{n}": v for n, v in ATTRIBUTES.items() if n != "datacontenttype"}
    headers["cloudEvents_id"] = str(number)
    return aio_pika.Message(
        BODY, headers=headers, content_type=ATTRIBUTES["datacontenttype"], message_id=str(number), delivery_mode=2
    )


# -- the sides; each runs in a process of its own, and prints its CPU time ---------------------------------------------


async def sink(port: int, queue: str, count: int) -> None:
    """The gateway's sink, with the window of a trigger."""
    with tempfile.TemporaryDirectory() as folder:
        found = Kit(Path(folder)).sink("rabbitmq", {"server": f"127.0.0.1:{port}", "queue": queue})
        async with anyio.create_task_group() as tasks:
            await found.start(tasks)
            ended, sent, arrived = anyio.Event(), 0, 0

            def done(outcome: Outcome) -> None:
                nonlocal arrived
                assert outcome.delivered, outcome
                arrived += 1
                if sent < count:
                    send()
                elif arrived == count:
                    ended.set()

            def send() -> None:
                nonlocal sent
                sent += 1
                found.send(event(sent), 60, done)

            with Cpu(count):
                for _ in range(WINDOW):
                    send()
                await ended.wait()
            await found.stop()
            tasks.cancel_scope.cancel()


async def publisher(port: int, queue: str, count: int) -> None:
    """By hand: as many tasks as messages may be in flight, each waits for its confirm."""
    async with await aio_pika.connect(f"amqp://127.0.0.1:{port}") as connection:
        channel = await connection.channel()
        numbers = iter(range(count))

        async def work() -> None:
            for number in numbers:
                await channel.default_exchange.publish(message(number), queue)

        with Cpu(count):
            await asyncio.gather(*(work() for _ in range(WINDOW)))


class Counting(MemoryIntake):
    """An intake that has room for everything, and forgets it."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.left = count
        self.full = anyio.Event()

    def accept(self, events: Any, done: Any) -> None:
        self.left -= len(events)
        done(None)
        if self.left <= 0:
            self.full.set()


async def source(port: int, queue: str, count: int) -> None:
    """The gateway's source, into an intake that stores at once."""
    with tempfile.TemporaryDirectory() as folder:
        options = {"server": f"127.0.0.1:{port}", "queue": queue, "prefetch": WINDOW}
        found, intake = Kit(Path(folder)).source("rabbitmq", options), Counting(count)
        async with anyio.create_task_group() as tasks:
            with Cpu(count):
                await found.start(intake, tasks)
                await intake.full.wait()
            await found.stop()
            tasks.cancel_scope.cancel()


async def consumer(port: int, queue: str, count: int) -> None:
    """By hand: reads the attributes of each message, and acknowledges it."""
    async with await aio_pika.connect(f"amqp://127.0.0.1:{port}") as connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=WINDOW)
        found = await channel.get_queue(queue, ensure=False)
        left = count
        with Cpu(count):
            async with found.iterator() as messages:
                async for one in messages:
                    attributes = {n.removeprefix("cloudEvents_"): v for n, v in one.headers.items()}
                    attributes["datacontenttype"] = one.content_type
                    assert attributes["specversion"] == "1.0"
                    await one.ack()
                    left -= 1
                    if not left:
                        break


class Cpu:
    """Prints what this process used for so many events, as JSON."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __enter__(self) -> None:
        self._cpu, self._began = time.process_time(), time.perf_counter()

    def __exit__(self, *error: object) -> None:
        cpu, took = time.process_time() - self._cpu, time.perf_counter() - self._began
        found = {"events": self._count, "cpu_us": cpu * 1e6 / self._count, "events_per_s": self._count / took}
        print(json.dumps(found), flush=True)


SIDES = {
    "RabbitMQ sink": sink,
    "RabbitMQ, published by hand (aio-pika)": publisher,
    "RabbitMQ source": source,
    "RabbitMQ, consumed by hand (aio-pika)": consumer,
}


# -- the bench -----------------------------------------------------------------------------------------------------


def play(case: str, port: int, queue: str, count: int) -> dict[str, Any]:
    """One case in a process of its own."""
    command = [sys.executable, __file__, "--side", case, "--port", str(port), "--queue", queue, "--events", str(count)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=600, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def cases(port: int, count: int) -> dict[str, Callable[[], dict[str, Any]]]:
    """Every case by its name. What one publishes, the next consumes."""
    queues = {"RabbitMQ sink": "a", "RabbitMQ source": "a"}
    return {case: lambda c=case: play(c, port, queues.get(c, "b"), count) for case in SIDES}


async def prepare(port: int) -> None:
    async with await aio_pika.connect(f"amqp://127.0.0.1:{port}") as connection:
        channel = await connection.channel()
        for name in "ab":
            await channel.declare_queue(name, durable=True, arguments={"x-queue-type": "quorum"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--json", type=Path)
    for name in ("--side", "--port", "--queue"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.side:
        with asyncio.Runner(loop_factory=_loop()) as runner:
            runner.run(SIDES[given.side](int(given.port), given.queue, given.events))
        return
    results: dict[str, list[dict[str, Any]]] = {case: [] for case in SIDES}
    with tempfile.TemporaryDirectory() as folder, servers.rabbitmq(Path(folder)) as server:
        asyncio.run(prepare(server.port))
        for _ in range(given.rounds):
            for case, run in cases(server.port, given.events).items():
                results[case].append(run())
    found = {c: {k: statistics.median(r[k] for r in runs) for k in runs[0]} for c, runs in results.items()}
    for case, figures in found.items():
        target = f"  (target {TARGETS[case]})" if case in TARGETS else ""
        print(f"{case:42} {figures['cpu_us']:7.1f} us/event {figures['events_per_s']:8.0f}/s{target}")
    if given.json:
        given.json.write_text(json.dumps(found, indent=2))


def _loop() -> Any:
    import uvloop

    return uvloop.new_event_loop


if __name__ == "__main__":
    main()
