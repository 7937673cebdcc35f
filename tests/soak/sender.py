"""The senders of a soak: a process that sends each event until somebody says yes, and writes that down.

Its one argument is JSON, as `Orders`. It ends when `Control.sender` says so and all that it has begun is accepted, or
when its time for that is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import uvloop

from tests.soak.ledger import Account, Control
from tests.soak.traffic import attributes_of, batch, body_of

_SINGLE = 10
"""Every so manieth request has one event, in binary mode."""
_RENEWED = 50
"""A connection ends after so many requests, so that certificates and workers take turns."""
_LEAST_S, _MOST_S = 0.05, 0.5


@dataclass(frozen=True, slots=True)
class Load:
    """How a route is sent: events a second (0: as many as it takes), connections, events in a request; `url` and `ca`
    for HTTP, `bootstrap` and `topic` for Kafka."""

    route: str
    rate: float
    connections: int
    batch: int
    url: str = ""
    ca: str = ""
    bootstrap: str = ""
    topic: str = ""


@dataclass(frozen=True, slots=True)
class Orders:
    """`most_open` events may be on their way on each route; `patience_s` is for what is open at the end."""

    folder: str
    capacity: int
    most_open: int
    patience_s: float
    loads: list[Load]


class Sending:
    """What all loads share."""

    def __init__(self, orders: Orders) -> None:
        self.control = Control(Path(orders.folder))
        self.most_open = orders.most_open
        self.patience_s = orders.patience_s
        self._refused = Path(orders.folder) / "refused.jsonl"
        self._end = 0.0

    @property
    def ending(self) -> bool:
        """Whether no new event is to begin."""
        return self.control.sender == Control.END

    @property
    def over(self) -> bool:
        """Whether even what has begun is to be left."""
        if not self.ending:
            return False
        self._end = self._end or time.monotonic() + self.patience_s
        return time.monotonic() > self._end

    def may_begin(self, account: Account) -> bool:
        """Whether the load may go on."""
        return self.control.sender == Control.RUN and account.open < self.most_open

    def refused(self, route: str, numbers: range, status: int, text: bytes) -> None:
        """Writes down that a valid event was refused for good."""
        row = {"route": route, "numbers": [numbers.start, numbers.stop], "status": status, "body": text[:300].decode()}
        with self._refused.open("a") as file:
            file.write(json.dumps(row) + "\n")


class Pace:
    """When the next request is due."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._due = time.monotonic()

    async def wait(self, events: int) -> None:
        """Until so many events may go; time that was lost is not made up for."""
        if not self._rate:
            return
        now = time.monotonic()
        if self._due > now:
            await asyncio.sleep(self._due - now)
        self._due = max(self._due, now - 1.0) + events / self._rate


async def send_http(load: Load, account: Account, sending: Sending, index: int) -> None:
    """One connection at a time, one request at a time."""
    parts = urlsplit(load.url)
    secure = ssl.create_default_context(cafile=load.ca) if load.ca else None
    pace = Pace(load.rate / load.connections)
    streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
    requests = index
    while not sending.ending:
        if not sending.may_begin(account):
            await asyncio.sleep(0.05)
            continue
        requests += 1
        numbers = account.take(1 if requests % _SINGLE == 0 else load.batch)
        await pace.wait(len(numbers))
        request = _request(load.route, numbers, parts.netloc, single=len(numbers) == 1)
        wait = _LEAST_S
        while not sending.over:
            for number in numbers:
                account.attempts.add(number)
            try:
                async with asyncio.timeout(30):
                    if streams is None:
                        streams = await asyncio.open_connection(parts.hostname, parts.port, ssl=secure)
                    streams[1].write(request)
                    status, text = await _answer(streams[0])
            except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                status, text = 0, b""
            if status // 100 != 2 or requests % _RENEWED == 0:
                if streams is not None:
                    streams[1].close()
                streams = None
            if status // 100 == 2:
                for number in numbers:
                    account.accept(number)
                break
            if status not in (0, 408, 429, 503):
                sending.refused(load.route, numbers, status, text)
                break
            await asyncio.sleep(wait)
            wait = min(wait * 2, _MOST_S)
    if streams is not None:
        streams[1].close()


def _request(route: str, numbers: range, host: str, *, single: bool) -> bytes:
    if single:
        attributes = attributes_of(route, numbers.start)
        kind = attributes.pop("datacontenttype")
        body = body_of(numbers.start)
        head = "".join(f"ce-{name}: {quote(value, safe='/!#$&+-.:;')}\r\n" for name, value in attributes.items())
    else:
        kind, head = "application/cloudevents-batch+json", ""
        body = batch(route, numbers)
    return (
        f"POST / HTTP/1.1\r\nhost: {host}\r\ncontent-type: {kind}\r\n{head}content-length: {len(body)}\r\n\r\n".encode()
        + body
    )


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    length = 0
    for line in head.split("\r\n")[1:]:
        name, _, value = line.partition(":")
        if name == "content-length":
            length = int(value)
    return int(head[9:12]), await reader.readexactly(length)


def send_kafka(load: Load, account: Account, sending: Sending) -> None:
    """A producer that is not the gateway's, in a thread of its own."""
    from confluent_kafka import KafkaException, Producer

    settings = {
        "bootstrap.servers": load.bootstrap,
        "enable.idempotence": True,
        "log.connection.close": False,
        "message.timeout.ms": 60_000,
        "linger.ms": 20,
    }
    producer = Producer(settings)
    failed: list[int] = []

    def put(number: int) -> None:
        account.attempts.add(number)
        headers: list[tuple[str, str | bytes | None]] = [
            (f"ce_{n}", v) for n, v in attributes_of(load.route, number).items() if n != "datacontenttype"
        ]
        headers.append(("content-type", "application/octet-stream"))

        def done(error: object, _: Any) -> None:
            account.accept(number) if error is None else failed.append(number)

        while True:
            try:
                producer.produce(
                    load.topic, body_of(number), b"key-%d" % (number % 211), headers=headers, on_delivery=done
                )
                return
            except BufferError:
                producer.poll(0.1)

    due = time.monotonic()
    while not sending.over:
        with contextlib.suppress(KafkaException):
            producer.poll(0.01)
        if failed:
            if len(producer) == 0:  # after a fatal error nothing goes any more
                producer = Producer(settings)
            again, failed[:] = failed.copy(), []
            for number in again:
                put(number)
            time.sleep(0.1)
        if sending.ending:
            if len(producer) == 0 and not failed:
                break
            continue
        now = time.monotonic()
        if not sending.may_begin(account) or now < due or len(producer) > 5_000:
            continue
        numbers = account.take(load.batch)
        for number in numbers:
            put(number)
        due = max(due, now - 1.0) + (len(numbers) / load.rate if load.rate else 0.0)


async def main() -> None:
    document = json.loads(sys.argv[1])
    orders = Orders(**{**document, "loads": [Load(**load) for load in document["loads"]]})
    sending = Sending(orders)
    threads = []
    async with asyncio.TaskGroup() as tasks:
        for load in orders.loads:
            account = Account(Path(orders.folder), load.route, orders.capacity)
            if load.bootstrap:
                threads.append(threading.Thread(target=send_kafka, args=(load, account, sending), daemon=True))
                threads[-1].start()
                continue
            for index in range(load.connections):
                tasks.create_task(send_http(load, account, sending, index))
    for thread in threads:
        await asyncio.to_thread(thread.join)


if __name__ == "__main__":
    uvloop.run(main())
