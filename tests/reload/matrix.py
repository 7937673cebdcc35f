"""Components come, go, change places and names while events flow: the rig of the reload matrix.

A gateway reads several streams of one server, each with an ingress (or a bridge) that has the names of the default
config. What the server has acknowledged goes into a ledger. In the end the gateway runs each config that left something
behind again, and everything must have arrived.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol
from uuid import NAMESPACE_URL, uuid5

import httpx
from gateway_testing import GatewayProcess

STREAMS = ("a", "b", "c")
PATIENCE_S = 120.0
QUIET_S = 5.0
_SOON = {"ack_wait_s": 1}
"""What a server may keep for a client that has left is redelivered within `QUIET_S`, else it would count as lost."""
"""If nothing has come for so long, the rest waits for another config."""


def structured(id: str) -> bytes:
    """An event in structured mode, as JSON."""
    return json.dumps({"specversion": "1.0", "id": id, "source": "/matrix", "type": "t"}).encode()


class Transport(Protocol):
    """What the matrix has to know of a transport. `word` begins all names at the server."""

    def source(self, stream: str) -> dict[str, Any]:
        """The source of a stream, without names that the gateway makes itself."""

    def prepare(self, streams: Sequence[str]) -> None:
        """Makes the streams."""

    def send(self, stream: str, ids: Sequence[str]) -> None:
        """Sends events; returns once the server has acknowledged all."""

    def names(self) -> set[str]:
        """The groups, consumers and queues that the server has for these streams."""

    def close(self) -> None:
        """Ends the sender."""


class Nats:
    def __init__(self, word: str, port: int) -> None:
        self.word, self._url = word, f"nats://127.0.0.1:{port}"

    def source(self, stream: str) -> dict[str, Any]:
        return {
            "nats": {
                "servers": self._url,
                "subject": f"{self.word}.{stream}",
                "stream": f"{self.word}_{stream}",
                **_SOON,
            }
        }

    def _ask(self, question: Callable[[Any], Any]) -> Any:
        import nats

        async def asked() -> Any:
            nc = await nats.connect(self._url)
            try:
                return await question(nc.jetstream(timeout=30))
            finally:
                await nc.close()

        return asyncio.run(asked())

    def prepare(self, streams: Sequence[str]) -> None:
        async def make(js: Any) -> None:
            for stream in streams:
                await js.add_stream(name=f"{self.word}_{stream}", subjects=[f"{self.word}.{stream}"])

        self._ask(make)

    def send(self, stream: str, ids: Sequence[str]) -> None:
        async def publish(js: Any) -> None:
            for id in ids:
                await js.publish(f"{self.word}.{stream}", structured(id))

        self._ask(publish)

    def names(self) -> set[str]:
        async def look(js: Any) -> set[str]:
            found = set()
            for stream in STREAMS:
                found |= {f"{self.word}_{stream}/{c.name}" for c in await js.consumers_info(f"{self.word}_{stream}")}
            return found

        found: set[str] = self._ask(look)
        return found

    def close(self) -> None:
        return


class Mqtt:
    def __init__(self, word: str, port: int) -> None:
        from tests.mqtt.publisher import Publisher

        self.word, self._port = word, port
        self._publisher = Publisher(port).__enter__()

    def source(self, stream: str) -> dict[str, Any]:
        return {"mqtt": {"server": f"127.0.0.1:{self._port}", "topic": f"{self.word}/{stream}/#"}}

    def prepare(self, streams: Sequence[str]) -> None:
        return

    def send(self, stream: str, ids: Sequence[str]) -> None:
        from tests.mqtt.sources import message

        for id in ids:
            self._publisher.publish(f"{self.word}/{stream}/x", message(id))

    def names(self) -> set[str]:
        return set()  # no client can ask for sessions

    def close(self) -> None:
        self._publisher.__exit__()


class Redis:
    def __init__(self, word: str, port: int) -> None:
        import redis

        self.word, self._port = word, port
        self._redis: Any = redis.Redis(port=port, protocol=2, socket_timeout=60)

    def source(self, stream: str) -> dict[str, Any]:
        codec: dict[str, Any] = {"cloudevents": {}}
        return {"redis": {"servers": f"127.0.0.1:{self._port}", "stream": f"{self.word}-{stream}", "codec": codec}}

    def prepare(self, streams: Sequence[str]) -> None:
        return

    def send(self, stream: str, ids: Sequence[str]) -> None:
        for id in ids:
            fields = {"content-type": "application/cloudevents+json", "data": structured(id)}
            self._redis.xadd(f"{self.word}-{stream}", fields)

    def names(self) -> set[str]:
        streams = [f"{self.word}-{stream}" for stream in STREAMS]
        return {f"{name}/{group['name'].decode()}" for name in streams for group in self._redis.xinfo_groups(name)}

    def close(self) -> None:
        self._redis.close()


class Rabbit:
    def __init__(self, word: str, server: Any) -> None:
        self.word, self._port = word, server.port

    def source(self, stream: str) -> dict[str, Any]:
        return {"rabbitmq": {"server": f"127.0.0.1:{self._port}", "queue": f"{self.word}-{stream}"}}

    def prepare(self, streams: Sequence[str]) -> None:
        return

    def send(self, stream: str, ids: Sequence[str]) -> None:
        import aio_pika

        async def publish() -> None:
            async with await aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{self._port}/") as connection:
                channel = await connection.channel(publisher_confirms=True)
                for id in ids:
                    content = "application/cloudevents+json"
                    made = aio_pika.Message(structured(id), content_type=content, delivery_mode=2)
                    await channel.default_exchange.publish(made, f"{self.word}-{stream}", mandatory=True)

        asyncio.run(publish())

    def names(self) -> set[str]:
        import aio_pika

        async def look() -> set[str]:
            found = set()
            async with await aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{self._port}/") as connection:
                for name in (f"{self.word}-{stream}" for stream in STREAMS):
                    channel = await connection.channel()
                    try:
                        await channel.declare_queue(name, passive=True)
                    except aio_pika.exceptions.ChannelNotFoundEntity:
                        continue
                    found.add(name)
            return found

        return asyncio.run(look())

    def close(self) -> None:
        return


class Kafka:
    def __init__(self, word: str, broker: Any) -> None:
        from confluent_kafka import Producer

        self.word, self._bootstrap = word, broker.bootstrap
        self._broker = broker
        self._producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})

    def source(self, stream: str) -> dict[str, Any]:
        return {"kafka": {"bootstrap": self._bootstrap, "topic": f"{self.word}-{stream}"}}

    def prepare(self, streams: Sequence[str]) -> None:
        for stream in streams:
            assert self._broker.create_topic(f"{self.word}-{stream}", 2)

    def send(self, stream: str, ids: Sequence[str]) -> None:
        faults: list[Any] = []
        for id in ids:
            self._producer.produce(
                f"{self.word}-{stream}",
                structured(id),
                headers=[("content-type", b"application/cloudevents+json")],
                on_delivery=lambda fault, _: faults.append(fault) if fault else None,
            )
        assert self._producer.flush(60) == 0
        assert not faults

    def names(self) -> set[str]:
        from confluent_kafka.admin import AdminClient

        found = AdminClient({"bootstrap.servers": self._bootstrap}).list_consumer_groups().result(60)
        return {group.group_id for group in found.valid if self.word in group.group_id}

    def close(self) -> None:
        self._producer.flush(60)


@dataclass(frozen=True)
class Shape:
    """A config: which streams the broker reads, in this order, what the broker and its trigger are called, and the
    name of the bridge that reads the last stream, if there is one."""

    ingress: tuple[str, ...]
    broker: str = "one"
    trigger: str = "one"
    bridge: str = ""

    def text(self, transport: Transport, word: str) -> str:
        file = {"file": {"path": "out.jsonl"}}
        broker = f"{word}-{self.broker}"
        document: dict[str, Any] = {
            "brokers": {broker: {"ingress": [transport.source(stream) for stream in self.ingress]}},
            # a trigger can't change its broker, so it has its name
            "triggers": {f"{self.trigger}-{self.broker}": {"broker": broker, "subscriber": file}},
        }
        if self.bridge:
            apart = {"file": {"path": "bridge.jsonl"}}
            bridge = {"source": transport.source(STREAMS[-1]), "sink": apart, "dead_letter": "deadletter"}
            document["bridges"] = {f"{word}-{self.bridge}": bridge}
        return json.dumps(document)


INSERTED = Shape(("a",))
EVERY_KIND: tuple[tuple[str, Shape], ...] = (
    ("insert", Shape(("b", "a"))),
    ("reorder", Shape(("a", "b"))),
    ("remove", Shape(("a",))),
    ("rename the trigger", Shape(("a",), trigger="two")),
    ("rename it back", Shape(("a",))),
    ("rename the broker", Shape(("a",), broker="two")),
    ("rename it back", Shape(("a",))),
    ("insert at both ends", Shape(("b", "a"), bridge="one")),
    ("rename the bridge", Shape(("b", "a"), bridge="two")),
    ("rename it back", Shape(("b", "a"), bridge="one")),
    ("remove the bridge", Shape(("b", "a"))),
)
"""Each kind of change, from `INSERTED` on."""


class Run:
    """One gateway and its ledger. `sent` is what the server has acknowledged."""

    def __init__(self, transport: Transport, folder: Path, word: str) -> None:
        self.transport = transport
        self.folder = folder
        self.word = word
        self.sent: list[str] = []
        self.reloads = self.kills = 0
        self._ended = threading.Event()
        self._fault: BaseException | None = None
        self.names: set[str] = set()

    def arrived(self) -> set[str]:
        """The ids in the files; the last line may be half written."""
        found = set()
        for file in self.folder.glob("*.jsonl"):
            for line in file.read_bytes().split(b"\n"):
                try:
                    found.add(json.loads(line)["id"])
                except ValueError:
                    continue
        return found

    def load(self, streams: Iterable[str]) -> threading.Thread:
        """Sends to these streams until `end`."""

        def send() -> None:
            number = 0
            try:
                while not self._ended.is_set():
                    for stream in streams:
                        ids = [f"{stream}{number + n}" for n in range(10)]
                        self.transport.send(stream, ids)
                        self.sent += ids
                    number += 10
                    time.sleep(0.01)
            except BaseException as e:
                self._fault = e

        thread = threading.Thread(target=send)
        thread.start()
        return thread

    def end(self, thread: threading.Thread) -> None:
        self._ended.set()
        thread.join(PATIENCE_S)
        assert self._fault is None, self._fault

    def change(self, gateway: GatewayProcess, shape: Shape) -> None:
        """Reloads, and returns once the gateway runs that."""
        before = self._generation(gateway)
        gateway.config.write_text(shape.text(self.transport, self.word))
        os.kill(gateway.pid, signal.SIGHUP)
        gateway.wait_until(lambda: self._generation(gateway) > before, PATIENCE_S, f"the reload to {shape}")
        assert gateway.status()["config"]["error"] is None
        self.reloads += 1

    def _generation(self, gateway: GatewayProcess) -> int:
        try:
            return int(gateway.status()["config"]["generation"])
        except httpx.HTTPError:
            return 0

    def missing(self) -> set[str]:
        return {*self.sent} - self.arrived()

    def all_arrive(self, gateway: GatewayProcess, shapes: Sequence[Shape]) -> set[str]:
        """What is lost: what has not arrived after each of these configs ran until nothing more came."""
        for shape in shapes:
            if gateway.config.read_text() != shape.text(self.transport, self.word):
                self.change(gateway, shape)
            seen, since = -1, time.monotonic()
            while self.missing() and time.monotonic() - since < QUIET_S:
                if (count := len(self.arrived())) != seen:
                    seen, since = count, time.monotonic()
                time.sleep(0.1)
        return self.missing()

    def unnamed(self) -> set[str]:
        """Names at the server that the data directory does not know."""
        noted = json.loads((self.folder / "data" / "names.json").read_text())["names"]
        self.names = {entry["name"] for entry in noted}
        return self.transport.names() - self.names


def word_of(folder: Path) -> str:
    return f"m{uuid5(NAMESPACE_URL, str(folder)).hex[:12]}"


def every_kind(transport: Transport, folder: Path, word: str) -> Run:
    """Each kind of change once, under load on the stream that stays."""
    run = Run(transport, folder, word)
    transport.prepare(STREAMS)
    (folder / "data").mkdir()
    with GatewayProcess(INSERTED.text(transport, word), folder, {"TIDEGATE_RELOAD": "signal"}) as gateway:
        ready(run, gateway, "a")
        senders = [run.load(["a"])]
        try:
            for what, shape in EVERY_KIND:
                count = len(run.sent)
                gateway.wait_until(lambda count=count: len(run.sent) > count + 20, PATIENCE_S, "more events")  # type: ignore[misc]
                run.change(gateway, shape)
                if what == "insert at both ends":
                    ready(run, gateway, "c")
                    senders.append(run.load(["c"]))
        finally:
            for sender in senders:
                run.end(sender)
        last = EVERY_KIND[-1][1]
        first, second = (replace(last, bridge=bridge) for bridge in ("one", "two"))
        lost = run.all_arrive(gateway, [first, last, replace(last, broker="two"), last, second])
        assert not lost, f"{len(lost)} of {len(run.sent)} lost: {sorted(lost)[:10]}\n{gateway.log()}"
        assert run.unnamed() == set()
        assert gateway.stop() == 0
    return run


def ready(run: Run, gateway: GatewayProcess, *streams: str) -> None:
    """Until a first event of each stream has come: sessions and consumers exist from then on."""
    for stream in streams:
        number = 0
        while not any(id.startswith(f"first-{stream}-") for id in run.arrived()):
            run.transport.send(stream, [f"first-{stream}-{number}"])
            number += 1
            assert number < 1200, f"nothing comes from {stream}:\n{gateway.log()}"
            time.sleep(0.1)


def at_random(transport: Transport, folder: Path, word: str, reloads: int, kills: int, seed: int) -> Run:
    """Random changes and kills under load on all streams."""
    chance, run = random.Random(seed), Run(transport, folder, word)
    transport.prepare(STREAMS)
    full = Shape(STREAMS)
    now = full
    killing = {*chance.sample(range(reloads), kills)}
    with GatewayProcess(full.text(transport, word), folder, {"TIDEGATE_RELOAD": "signal"}) as gateway:
        ready(run, gateway, *STREAMS)
        for broker in ("two", "one"):  # names that come later exist from here on, and miss nothing
            run.change(gateway, replace(full, broker=broker))
        run.change(gateway, replace(full, trigger="two"))
        run.change(gateway, full)
        sender = run.load(STREAMS)
        try:
            for number in range(reloads):
                wanted = now
                while wanted == now:
                    ingress = tuple(chance.sample(STREAMS, chance.randint(1, len(STREAMS))))
                    names = {"broker": chance.choice(("one", "one", "two")), "trigger": chance.choice(("one", "two"))}
                    wanted = Shape(ingress, **names)
                if number in killing and chance.random() < 0.5:  # during the reload
                    gateway.config.write_text(wanted.text(transport, word))
                    os.kill(gateway.pid, signal.SIGHUP)
                    time.sleep(chance.random() * 0.2)
                    gateway.kill()
                    gateway.start()
                    run.reloads, run.kills = run.reloads + 1, run.kills + 1
                else:
                    run.change(gateway, wanted)
                    if number in killing:
                        gateway.kill()
                        gateway.start()
                        run.kills += 1
                now = wanted
        finally:
            run.end(sender)
        ends = [replace(full, broker=b, trigger=t) for b in ("one", "two") for t in ("one", "two")]
        lost = run.all_arrive(gateway, [*ends, full])
        assert not lost, f"{len(lost)} of {len(run.sent)} lost: {sorted(lost)[:10]}\n{gateway.log()}"
        assert run.unnamed() == set()
        assert gateway.stop() == 0
    return run
