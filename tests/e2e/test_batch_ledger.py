"""A ledger of events in batches that are rejected, fail, or have a status for each event, while the gateway is killed
and reloaded: each is taken by the subscriber or in the dead letter, and the right one of the two."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from collections import Counter
from pathlib import Path

import httpx
import pytest
from gateway_testing import GatewayProcess, Received, Subscriber
from gateway_testing.subscriber import Answer

from tests.ledger import free_port

pytestmark = pytest.mark.usefixtures("processes")

CONFIG = """\
brokers:
  default:
    ingress:
      - http: {{listen: "127.0.0.1:{port}"}}
triggers:
  orders:
    subscriber:
      http: {{url: {url}, batch: {batch}}}
    delivery: {{retry: 30, backoff: linear, backoff_delay_s: 0.01, backoff_max_s: 0.05, order: {order}}}
"""
BATCHES = ("{max_events: 50, wait: 0.02}", "{max_events: 7, wait: 0.005}", "{max_events: 200, wait: 0.05}")
EVERY = {"rejects its batch": 97, "fails its batch": 89, "is rejected alone": 83, "fails alone": 79}
"""Which events the subscriber never takes, and what their batches get."""


def poison(number: int, *kinds: str) -> bool:
    return any(number % EVERY[kind] == EVERY[kind] - 1 for kind in kinds or EVERY)


class Takes:
    """The subscriber: it counts what it says that it took."""

    def __init__(self) -> None:
        self.count: Counter[int] = Counter()
        self.answers: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._random = random.Random(7)

    def __call__(self, request: Received) -> Answer:
        numbers = [one["data"]["n"] for one in json.loads(request.body)]
        with self._lock:
            answer, taken = self._decide(numbers)
            self.count.update(taken)
        return answer

    def _decide(self, numbers: list[int]) -> tuple[Answer, list[int]]:
        if any(poison(n, "rejects its batch") for n in numbers):
            return self._said("422", 422), []
        if any(poison(n, "fails its batch") for n in numbers):
            return self._said("500", 500), []
        draw = self._random.random()
        if draw < 0.04:
            return self._said("503", 503), []
        if draw < 0.07:
            return self._said("none", None), []
        if draw < 0.10:
            return self._said("unreadable", (207, {}, b"<multistatus/>")), []
        if draw < 0.55 or any(map(poison, numbers)):
            statuses = {n: self._status(n) for n in numbers}
            items = [{"id": str(n), "status": status} for n, status in statuses.items() if status]
            taken = [n for n, status in statuses.items() if status == 200]
            return self._said("207", (207, {}, json.dumps({"items": items}).encode())), taken
        return self._said("204", 204), numbers

    def _said(self, what: str, answer: Answer) -> Answer:
        self.answers[what] += 1
        return answer

    def _status(self, number: int) -> int:
        """What the 207 says of an event; 0 if nothing."""
        if poison(number, "is rejected alone"):
            return 422
        if poison(number, "fails alone"):
            return 500
        return self._random.choices((200, 503, 0), (90, 5, 5))[0]


def letters(folder: Path) -> Counter[int]:
    """How often each event is in the dead letter."""
    lines = [line for file in folder.glob("*.jsonl") for line in file.read_bytes().splitlines()]
    return Counter(int(json.loads(line)["event"]["id"]) for line in lines)


def send(url: str, numbers: range) -> None:
    batch = [
        {
            "specversion": "1.0",
            "id": str(n),
            "source": "/t",
            "type": "t",
            "partitionkey": f"k{n % 40}",
            "data": {"n": n},
        }
        for n in numbers
    ]
    kind = {"content-type": "application/cloudevents-batch+json"}
    assert httpx.post(url, content=json.dumps(batch), headers=kind, timeout=60).status_code == 202


@pytest.mark.timeout(400)
@pytest.mark.spec("BATCH-06", "BATCH-02", "BATCH-07", "BATCH-08")
@pytest.mark.parametrize(
    ("order", "kills", "reloads", "events"),
    [
        ("unordered", 0, 3, 400),
        ("key", 2, 1, 400),
        pytest.param("unordered", 10, 20, 10_000, marks=pytest.mark.full),
        pytest.param("key", 10, 20, 10_000, marks=pytest.mark.full),
    ],
)
def test_each_event_is_taken_or_a_dead_letter(
    order: str, kills: int, reloads: int, events: int, tmp_path: Path
) -> None:
    takes, port = Takes(), free_port()
    with Subscriber(decide=takes) as subscriber:
        configs = [CONFIG.format(port=port, url=subscriber.url, batch=batch, order=order) for batch in BATCHES]
        with GatewayProcess(configs[0], tmp_path, {"TIDEGATE_RELOAD": "signal"}) as gateway:
            steps = ["kill"] * kills + ["reload"] * reloads
            random.Random(3).shuffle(steps)
            share = events // len(steps)
            generation = 1
            for number, step in enumerate(steps):
                end = events if number == len(steps) - 1 else (number + 1) * share
                send(gateway.ingress(), range(number * share, end))
                goal = len(takes.count) + share // 4
                gateway.wait_until(lambda goal=goal: len(takes.count) >= goal, 60, f"{goal} deliveries")
                gateway.config.write_text(configs[(number + 1) % len(configs)])
                if step == "kill":
                    gateway.kill()
                    gateway.start()
                    generation = 1
                    continue
                os.kill(gateway.pid, signal.SIGHUP)
                generation += 1
                gateway.wait_until(
                    lambda wanted=generation: gateway.status()["config"]["generation"] == wanted, 30, "the reload"
                )
            gateway.wait_until(gateway.drained, 120, "the deliveries")
            found = letters(tmp_path / "data/dead-letter")
            assert gateway.stop() == 0
    given_up = {n for n in range(events) if poison(n)}
    assert set(found) == given_up
    assert set(takes.count) == set(range(events)) - given_up
    assert {"422", "500", "207", "204"} <= set(takes.answers)
    if not kills:  # then nothing is sent again that was taken
        assert max(takes.count.values()) == max(found.values()) == 1
    print(f"{takes.answers}: {takes.count.total() - len(takes.count)} twice")
