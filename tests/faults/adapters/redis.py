"""Redis Streams: the stream `in` goes through the gateway into the stream `out`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.faults.adapter import Arrived, Place, read_structured, structured


class Redis:
    """The server writes its file before it answers, so that a kill loses nothing of what it acknowledged."""

    name = "redis"
    server = "redis"
    server_settings = "appendfsync always"  # with `everysec` it answers before it writes while its disk is slow
    ordered = True
    ordered_workers = False  # they share the group: each gets other entries

    def __init__(self) -> None:
        self._last: Any = "0"  # the last entry that was collected

    def prepare(self, at: Place) -> None:
        pass  # the gateway makes its consumer group, and with `start: "0"` reads from the beginning

    def source(self, at: Place) -> str:
        return f'redis: {{{_server(at)}, stream: in, start: "0", claim_idle_s: 2, codec: {{cloudevents: {{}}}}}}'

    def sink(self, at: Place) -> str:
        return f"{{redis: {{{_server(at)}, stream: out, codec: {{cloudevents: {{mode: structured}}}}}}}}"

    def send(self, at: Place, numbers: Sequence[int], acknowledged: Callable[[int], None]) -> None:
        with _client(at) as client, client.pipeline(transaction=False) as pipeline:
            for number in numbers:
                pipeline.xadd("in", {"content-type": "application/cloudevents+json", "data": structured(number)})
            for number, answer in zip(numbers, pipeline.execute(raise_on_error=False), strict=True):
                if isinstance(answer, Exception):
                    raise answer
                acknowledged(number)

    def poison(self, at: Place) -> None:
        with _client(at) as client:
            client.xadd("in", {"content-type": "application/cloudevents+json", "data": b'{"specversion": "1.0"'})

    def collect(self, at: Place, arrived: Callable[[Arrived], None], ended: threading.Event) -> None:
        with _client(at) as client:
            while not ended.is_set():
                found: Any = client.xread({"out": self._last}, count=100, block=100)
                for _, entries in found or ():
                    for entry, fields in entries:
                        arrived(read_structured(fields[b"data"]))
                        self._last = entry

    def evict(self, at: Place) -> None:
        with _client(at) as client:
            client.execute_command("CLIENT", "KILL", "USER", "gateway")

    def fill(self, at: Place, full: bool) -> bool:
        with _client(at) as client:
            client.config_set("maxmemory", "1mb" if full else "0")
        return True


def _server(at: Place) -> str:
    return f'servers: "{at.host}:{at.port}", username: {at.user}, password: {at.password}'


def _client(at: Place) -> redis.Redis:
    return redis.Redis(
        at.host, at.port, username=at.user, password=at.password, retry=Retry(NoBackoff(), 0), socket_timeout=10
    )


ADAPTER = Redis
