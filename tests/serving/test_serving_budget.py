"""Requests that have not come in completely: how much memory they may hold, and who makes way."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from gateway_serving.budget import Budget
from gateway_testing import GatewayProcess, Subscriber

from tests import web

MIB = 1024 * 1024
HEAD = (
    b"POST / HTTP/1.1\r\nHost: localhost\r\nce-specversion: 1.0\r\nce-type: t\r\nce-source: /s\r\n"
    b"ce-id: %d\r\nContent-Length: %d\r\n\r\n"
)


class Request:
    """An unfinished request of a test."""

    def __init__(self, budget: Budget, began: float) -> None:
        self._budget = budget
        self._began = began
        self.held = 0
        self.paused = self.gone = False

    def begun(self) -> float:
        return self._began

    def hold_back(self, paused: bool) -> None:
        self.paused = paused

    def evict(self) -> None:
        self.gone = True
        self._budget.release(self)


def test_the_slowest_make_way_and_the_others_go_on() -> None:
    budget = Budget(1000, 100)
    first, second, third = (Request(budget, n) for n in range(3))
    budget.hold(second, 400)
    budget.hold(first, 300)
    budget.hold(third, 100)
    assert (first.paused, second.paused, third.paused) == (False, False, True)  # more than 750 bytes
    budget.sweep(10.0)
    budget.sweep(10.2)
    assert not first.gone
    budget.sweep(10.6)
    assert (first.gone, second.gone, third.gone, third.paused, budget.held) == (True, False, False, False, 500)
    budget.hold(third, 700)  # beyond the limit: at once
    assert (second.gone, third.gone, budget.held) == (True, True, 0)


def test_two_requests_of_the_greatest_size_have_room() -> None:
    assert Budget(1000, 600).limit == 1200


@contextmanager
def gateway(folder: Path, kind: str) -> Iterator[GatewayProcess]:
    limits = f"limits: {{max_unfinished_bytes: {8 * MIB}, body_timeout_s: 120}}"
    with Subscriber() as subscriber:
        sources = {
            "native": f'http: {{listen: "127.0.0.1:0", {limits}}}',
            "fn": f'fn: {{listen: "127.0.0.1:0", function: "{subscriber.url}", max_body_bytes: {MIB}, {limits}}}',
        }
        triggers = f'triggers: {{all: {{subscriber: "{subscriber.url}"}}}}'
        config = f"brokers: {{default: {{ingress: [{sources[kind]}]}}}}\n{triggers}\n"
        with GatewayProcess(config, folder) as running:
            yield running


@pytest.mark.spec("SAFE-12")
@pytest.mark.parametrize("kind", ["native", "fn"])
@pytest.mark.usefixtures("processes")
def test_unfinished_bodies_are_bounded_and_starve_nobody(tmp_path: Path, kind: str) -> None:
    with gateway(tmp_path, kind) as running:
        parts = urlsplit(running.ingress())
        running.wait_until(lambda: running.status()["processes"][0]["resident_bytes"])
        before = running.status()["processes"][0]["resident_bytes"]
        answers: list[bytes] = []

        def slow(number: int) -> None:
            with socket.create_connection((parts.hostname, parts.port)) as sock:
                sock.settimeout(60)
                try:
                    sock.sendall(HEAD % (number, MIB) + b"x" * (MIB - 1))
                    answers.append(sock.recv(65536))
                except OSError:
                    answers.append(b"")

        threads = [threading.Thread(target=slow, args=(number,), daemon=True) for number in range(150)]
        for thread in threads:
            thread.start()
        began = time.monotonic()
        quick = [
            web.post(running.ingress(), headers=EVENT, content=b"x" * 1000, timeout=10, verify=False) for _ in range(20)
        ]
        large = [retried(running.ingress(), b"x" * (MIB // 2)) for _ in range(5)]
        most = before
        while sum(1 for a in answers if a.startswith(b"HTTP/1.1 503 ")) < 120:
            most = max(most, running.status()["processes"][0]["resident_bytes"])
            assert running.status()["processes"][0]["unfinished_bytes"] <= 8 * MIB + MIB
            assert time.monotonic() - began < 60
            time.sleep(0.1)
        assert {answer.status_code for answer in [*quick, *large]} <= {202, 204}
        assert most - before < 60 * MIB
        metrics = running.admin("/metrics").text
        assert re.search(r'tidegate_unfinished_refused_total\{worker="0"\} [1-9]', metrics)
        assert "slowest were refused" in running.stderr.read_text()


EVENT = {"ce-specversion": "1.0", "ce-type": "t", "ce-source": "/s", "ce-id": "1"}


def retried(address: str, body: bytes) -> httpx.Response:
    """As a sender does that heeds 503."""
    for _ in range(20):
        answer = web.post(address, headers=EVENT, content=body, timeout=20, verify=False)
        if answer.status_code != 503:
            return answer
        time.sleep(0.1)
    return answer
