"""What a subscriber that is down costs, for how many events, and when they are given up.

In simulated time, in this process: the requests that a subscriber gets, when events are in the dead letter, and CPU.

    python tests/bench/outage.py simulated --events 10000 --says nothing --delivery '{"retry": 10}'

A real gateway with that many events for a closed port: CPU, memory and attempts.

    python tests/bench/outage.py waiting --events 200000

Triggers that hold 10,000 events each in their longest waits, as two hours after the first failure, in simulated time:
memory and CPU of the deliveries alone.

    python tests/bench/outage.py held --events 200000 --says 503
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import random
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gateway_testing import FakeClock, GatewayProcess
from measure import cpu_s, memory_mb
from measure import load as sent

from gateway_core.contract.backoff import LONGEST_S
from gateway_core.contract.config_model import DeliveryConfig
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import DELIVERED, Outcome
from gateway_core.delivery import Budget, Subscription
from gateway_core.delivery.deliveries import MOST_HELD, of_key

SAYS = {
    "refused": Outcome(False, retry=True, reason="connection refused"),
    "nothing": Outcome(False, retry=True, reason="no response in time"),
    "503": Outcome(False, retry=True, code=503, reason="503 Service Unavailable"),
}
MOST_S = 200_000.0


class Down:
    """A subscriber that is down."""

    address = "http://down/"

    def __init__(self, says: str, clock: FakeClock) -> None:
        self.requests = 0
        self._outcome = SAYS[says]
        self._silent = says == "nothing"
        self._clock = clock

    def send(self, event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
        self.requests += 1
        self._clock.call_later(timeout_s if self._silent else 0.001, done, self._outcome)


class Letters:
    """A dead letter that notes when events came."""

    address = "letters:"

    def __init__(self, clock: FakeClock) -> None:
        self.times: list[float] = []
        self._clock = clock

    def send(self, event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
        self.times.append(self._clock.monotonic())
        done(DELIVERED)


class Feed:
    """Where the events come from."""

    def ack(self, position: int) -> None:
        return

    def resume(self) -> None:
        return

    def lag(self) -> int:
        return 0


def made(n: int) -> Event:
    attributes = {"specversion": "1.0", "id": f"{n:08d}", "source": "/shop/orders", "type": "com.example.order.placed"}
    return Event({**attributes, "partitionkey": "k"}, b'{"order": 17}' * 20, received_ns=1, position=n + 1)


def subscribed(name: str, says: str, policy: DeliveryConfig, clock: FakeClock, budget: Budget) -> Any:
    """A subscription with its subscriber and its dead letter."""
    sink, letters = Down(says, clock), Letters(clock)
    key = of_key if policy.order == "key" else None
    subscription = Subscription(
        *(name, sink, policy, clock),
        dead_letter=letters,
        budget=budget,
        order_key_of=key,  # type: ignore[arg-type]
    )
    subscription.feed = Feed()  # type: ignore[assignment]
    return subscription, sink, letters


def simulated(a: argparse.Namespace) -> dict[str, Any]:
    """All events are there when the subscriber goes."""
    clock = FakeClock()
    policy = DeliveryConfig.model_validate_json(a.delivery)
    subscription, sink, letters = subscribed("t", a.says, policy, clock, Budget(2**40))
    for n in range(a.events):
        assert subscription.offer(made(n)), "more than a trigger holds"
    began = time.process_time()
    while len(letters.times) < a.events and clock.monotonic() < MOST_S:
        clock.advance(10)
    times = letters.times or [0.0]
    cpu = time.process_time() - began
    return {
        "requests": sink.requests,
        "dead": len(letters.times),
        "first_s": round(min(times)),
        "last_s": round(max(times)),
        "cpu_s": round(cpu, 1),
    }


def held(a: argparse.Namespace) -> dict[str, Any]:
    """For ten minutes."""
    clock, budget = FakeClock(), Budget(2**40)
    policy = DeliveryConfig(backoff_delay_s=LONGEST_S, backoff_max_s=LONGEST_S)
    gc.collect()
    before = memory_mb(os.getpid())
    events = [made(n) for n in range(a.events)]
    gc.collect()
    of_events = memory_mb(os.getpid()) - before
    found = [subscribed(f"t{n}", a.says, policy, clock, budget) for n in range(-(-a.events // MOST_HELD))]
    for n, event in enumerate(events):
        assert found[n // MOST_HELD][0].offer(event)
    del events
    clock.advance(2 * LONGEST_S)
    requests, began = sum(sink.requests for _, sink, _ in found), time.process_time()
    clock.advance(600)
    cpu = (time.process_time() - began) / 600
    gc.collect()
    return {
        "triggers": len(found),
        "events_mb": round(of_events),
        "memory_mb": round(memory_mb(os.getpid()) - before),
        "requests_per_s": round((sum(sink.requests for _, sink, _ in found) - requests) / 600, 1),
        "cpu_percent": round(100 * cpu, 2),
    }


def waiting(a: argparse.Namespace) -> dict[str, Any]:
    """The gateway's figures once all events wait."""
    with socket.socket() as closed, tempfile.TemporaryDirectory() as folder:
        closed.bind(("127.0.0.1", 0))  # and nobody listens
        config = (
            f'brokers: {{default: {{ingress: [http: {{listen: "127.0.0.1:0"}}], delivery: {a.delivery}}}}}\n'
            f'triggers: {{t: {{subscriber: "http://127.0.0.1:{closed.getsockname()[1]}/"}}}}\n'
        )
        with GatewayProcess(config, Path(folder)) as gateway:
            empty = memory_mb(gateway.pid)
            url = gateway.ingress()
            result = sent(url, mode="batch", batch=100, seconds=60, limit=a.events // 100)
            time.sleep(a.settle)
            attempts, cpu, began = gateway.trigger("t")["attempts"], cpu_s(gateway.pid), time.perf_counter()
            time.sleep(a.seconds)
            spent, took = cpu_s(gateway.pid) - cpu, time.perf_counter() - began
            status = gateway.trigger("t")
            return {
                "sent": result["events"],
                "lag": status["lag"],
                "held": status["waiting"],
                "attempts": status["attempts"] - attempts,
                "seconds": round(took, 1),
                "cpu_percent": round(100 * spent / took, 2),
                "memory_mb": round(memory_mb(gateway.pid)),
                "memory_before_mb": round(empty),
            }


def main() -> None:
    """Prints a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("simulated", "waiting", "held"))
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--says", choices=SAYS, default="refused", help="what the subscriber does")
    parser.add_argument("--delivery", default="{}", help="`delivery` of the config, as JSON")
    parser.add_argument("--settle", type=float, default=10.0, help="seconds until a real gateway is measured")
    parser.add_argument("--seconds", type=float, default=12.0, help="how long it is measured")
    a = parser.parse_args()
    logging.disable(logging.CRITICAL)
    random.seed(1)
    print(json.dumps({"simulated": simulated, "waiting": waiting, "held": held}[a.what](a)))


if __name__ == "__main__":
    sys.exit(main())
