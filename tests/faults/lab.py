"""A server, a proxy, a gateway and a load: where the fault matrix plays."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import httpx
from gateway_dev import servers
from gateway_testing import GatewayProcess

from tests.faults.adapter import Adapter, FaultServer, Place
from tests.faults.kafka_server import KafkaServer
from tests.faults.ledger import FaultLedger, Figures, letters
from tests.faults.proxy import Proxy

LIMIT_S = 120.0
_BATCH = 20
_MOST_OPEN = 500
"""The sender waits while so many events are on their way, unless a fault wants more: it hits a gateway at work, not a
backlog."""
USERS = {"gateway": "for-the-gateway", "tests": "for-the-tests"}

SERVERS: dict[str, Callable[..., FaultServer]] = {**servers.ALL, "kafka": KafkaServer}

CONFIG = """
brokers:
  default:
    ingress:
      - {source}
    channel: {{log: {{max_queue_bytes: {queue_bytes}}}}}
    delivery: {{retry: 1000, backoff_delay_s: 0.05, backoff_max_s: 0.5, timeout_s: 5, order: {order}}}
triggers:
  out:
    subscriber: {sink}
"""


class Lab:
    """`with Lab(adapter, folder) as lab:` runs all of it, under load; `lab.finish()` ends the load and checks that no
    event is missing."""

    def __init__(
        self, adapter: Adapter, folder: Path, *, workers: int = 1, queue_bytes: int = 1 << 26, seed: int = 11
    ) -> None:
        self.adapter = adapter
        self.ledger = FaultLedger()
        self.chance = random.Random(seed)
        self.faults = 0
        self.poisoned = 0
        self.server = SERVERS[adapter.server](folder / "server", users=USERS, settings=adapter.server_settings)
        self.proxy = self.server.proxy if isinstance(self.server, KafkaServer) else Proxy(self.server.port)
        self._folder = folder
        self._workers = workers
        self._ordered = adapter.ordered if workers == 1 else adapter.ordered_workers
        self._queue_bytes = queue_bytes
        self._ended = threading.Event()
        self._all_sent = threading.Event()
        self._may_send = threading.Event()
        self._idle = threading.Event()
        self._goal = 0
        self._threads: list[threading.Thread] = []
        self._errors: list[BaseException] = []
        self._begun = time.monotonic()

    @property
    def direct(self) -> Place:
        """The server, as the tests reach it."""
        return Place(self.server.port, "tests", USERS["tests"], server=self.server)

    @property
    def through(self) -> Place:
        """The server, as the gateway reaches it."""
        return Place(self.proxy.port, "gateway", USERS["gateway"])

    def __enter__(self) -> Self:
        try:
            self.server.start()
            self.proxy.__enter__()
            self.adapter.prepare(self.direct)
            config = CONFIG.format(
                source=self.adapter.source(self.through),
                sink=self.adapter.sink(self.through),
                queue_bytes=self._queue_bytes,
                order="key" if self._ordered else "unordered",
            )
            flags = ("--workers", str(self._workers)) if self._workers > 1 else ()
            self.gateway = GatewayProcess(config, self._folder, None, *flags)
            self.gateway.start(LIMIT_S)
            self._may_send.set()
            for work in (self._send, self._collect):
                self._threads.append(threading.Thread(target=work, name=work.__name__, daemon=True))
                self._threads[-1].start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self._all_sent.set()
        self._ended.set()
        self._may_send.set()
        if hasattr(self, "gateway"):
            self.gateway.__exit__(None, None, None)
        self.proxy.__exit__()
        self.server.kill()
        for thread in self._threads:
            thread.join(LIMIT_S)

    # -- for the faults

    def more(self, count: int = 60) -> None:
        """Returns when so many more events have been acknowledged."""
        self._goal = goal = len(self.ledger.acknowledged) + count
        self.wait(lambda: len(self.ledger.acknowledged) >= goal, f"{goal} acknowledged events")

    def flowing(self) -> None:
        """Returns when an event that is sent from now on has arrived at the remote side."""
        self.more(1)
        mark = max(self.ledger.acknowledged)
        self.wait(lambda: mark not in self.ledger.open(self._letters()), f"event {mark} to arrive")

    def wait(self, condition: Callable[[], object], what: str) -> None:
        """Waits for a condition; fails with the gateway's log and what the load said."""
        end = time.monotonic() + LIMIT_S
        while not condition():
            if time.monotonic() > end:
                told = "; ".join(f"{type(error).__name__}: {error}" for error in self._errors[-3:])
                counts = f"{len(self.ledger.acknowledged)} acknowledged, {len(self.ledger.arrived)} arrived"
                logs = f"{self.gateway.log()}\n{self.server.tail()}"
                raise AssertionError(f"waited {LIMIT_S:g} s for {what}: {counts}; the load said: {told}\n{logs}")
            time.sleep(0.02)

    def restart_server(self) -> None:
        """kill -9 of the server, and a start with its data. A server that acknowledges before it writes gets the time
        to write, with the gateway and the sender held up in the middle of their work."""
        if self._settles():
            self.server.kill()
            self.proxy.cut()
            self.proxy.heal()
            self._may_send.set()
        else:
            self.server.kill()
        self.server.start()

    def _settles(self) -> bool:
        self.proxy.stall()
        self._may_send.clear()
        self.wait(self._idle.is_set, "the sender to pause")
        if self.server.saved():
            return True
        self.proxy.heal()
        self._may_send.set()
        return False

    def gateway_workers(self) -> set[int]:
        """The process ids of the gateway's workers; none while the one with the admin API is down."""
        with contextlib.suppress(httpx.HTTPError, AssertionError):
            return {worker["pid"] for worker in self.gateway.status()["processes"]}
        return set()

    def retried(self) -> int:
        """How many attempts of deliveries failed and are tried again."""
        return int(self.gateway.trigger("out")["retried"])

    # -- the end

    def finish(self) -> Figures:
        """Ends the load, waits until all that was acknowledged is somewhere, and checks it."""
        self._all_sent.set()
        self._threads[0].join(LIMIT_S)
        assert not self._threads[0].is_alive(), f"the sender hangs: {self._errors[-3:]}"
        self.wait(lambda: not self.ledger.open(self._letters()), "what was acknowledged to arrive")
        self.wait(lambda: letters(self._dead)[1] >= self.poisoned, "the poison in the dead letter")
        self.wait(self._drained, "the gateway to have delivered everything")
        ledger = self.ledger
        assert not ledger.wrong, ledger.wrong[:3]
        if self._ordered:
            assert not ledger.out_of_order, ledger.out_of_order[:3]
        numbered, others = letters(self._dead)
        return ledger.figures(len(numbered) + others, self.faults, time.monotonic() - self._begun)

    def _drained(self) -> bool:
        with contextlib.suppress(httpx.HTTPError, AssertionError):
            return self.gateway.drained()
        return False

    @property
    def _dead(self) -> Path:
        return self._folder / "data" / "dead-letter"

    def _letters(self) -> dict[int, bytes]:
        return letters(self._dead)[0]

    # -- the load

    def _send(self) -> None:
        number = 1
        while not self._all_sent.is_set():
            enough = len(self.ledger.acknowledged) >= self._goal and len(self.ledger.open()) > _MOST_OPEN
            if enough or not self._may_send.is_set():
                self._idle.set()
                time.sleep(0.01)
                continue
            self._idle.clear()
            number = self._batch(range(number, number + _BATCH))
            time.sleep(0.01)

    def _batch(self, numbers: range) -> int:
        """Sends these until all are acknowledged; returns the number after them."""
        left = list(numbers)
        while left and not self._ended.is_set():
            try:
                self.adapter.send(self.direct, left, self.ledger.acknowledge)
            except Exception as e:
                self._errors.append(e)
                time.sleep(0.05)
            left = [number for number in left if number not in self.ledger.acknowledged]
        return numbers.stop

    def _collect(self) -> None:
        while not self._ended.is_set():
            try:
                self.adapter.collect(self.direct, self.ledger.arrive, self._ended)
            except Exception as e:
                self._errors.append(e)
                time.sleep(0.05)
