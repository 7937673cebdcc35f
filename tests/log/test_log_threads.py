"""A machine without memory for another thread: the log keeps working with the threads that it has."""

from __future__ import annotations

import resource
from contextlib import ExitStack
from pathlib import Path

import pytest
from gateway_testing import GatewayProcess, Subscriber

from tests import web

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.spec("SAFE-66")]

CONFIG = """
brokers: {default: {ingress: [http: {listen: "127.0.0.1:0"}]}}
triggers:
  taker: {subscriber: URL, delivery: {retry: 1000, backoff_delay_s: 0.05, backoff_max_s: 0.2}}
"""
HEADERS = {"ce-specversion": "1.0", "ce-source": "/threads", "ce-type": "t"}
EVENTS = 160
"""With 100 kB each: more than the write-ahead log keeps, and more than the gateway keeps in memory."""

STACK_KB = 512 * 1024
"""The gateway reserves this much for each of its threads, so that a limit of its memory leaves room for all else."""


def test_events_are_stored_and_read_without_a_new_thread(tmp_path: Path) -> None:
    got: set[str] = set()
    up = False

    def decide(received: object) -> int:
        if up:
            got.add(received.headers["ce-id"])  # type: ignore[attr-defined]
        return 202 if up else 503

    with Subscriber(decide=decide) as s, ExitStack() as stack:
        gateway = GatewayProcess(CONFIG.replace("URL", s.url), tmp_path)
        gateway.launcher = ["sh", "-c", f'ulimit -Ss {STACK_KB}; exec "$@"', "sh"]
        stack.enter_context(gateway)
        url, body = gateway.ingress(), b"x" * 100_000
        used = next(
            int(line.split()[1])
            for line in Path(f"/proc/{gateway.pid}/status").read_text().splitlines()
            if line.startswith("VmSize:")
        )
        most = (used + STACK_KB // 2) * 1024
        resource.prlimit(gateway.pid, resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
        with web.client(timeout=60) as client:
            taken = 0
            for number in range(EVENTS):
                answer = client.post(url, content=body, headers={**HEADERS, "ce-id": str(number)})
                assert answer.status_code in (202, 503), answer.text
                taken += answer.status_code == 202
            assert taken > EVENTS // 2
        up = True
        gateway.wait_until(lambda: len(got) >= taken, 60, "the deliveries")
        assert "can't start new thread" not in gateway.log()
