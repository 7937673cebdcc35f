"""A process that has few descriptors: its own work comes first."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from gateway_testing import GatewayProcess, Subscriber

from tests import web
from tests.serving.doors import Doors

pytestmark = pytest.mark.usefixtures("processes")


HEADERS = {"ce-specversion": "1.0", "ce-type": "t", "ce-source": "/s"}
CONFIG = """
brokers:
  default:
    ingress: [{http: {listen: "127.0.0.1:0"}}]
triggers:
  all:
    subscriber: "%s"
    delivery: {retry: 2, backoff_delay_s: 0.05, timeout_s: 5}
"""


@contextmanager
def limited(subscriber: Subscriber, folder: Path, soft: int, hard: int) -> Iterator[GatewayProcess]:
    gateway = GatewayProcess(CONFIG % subscriber.url, folder)
    gateway.launcher = ["sh", "-c", f'ulimit -Sn {soft}; ulimit -Hn {hard}; exec "$@"', "sh"]
    with gateway:
        yield gateway


def post(address: str, number: int) -> int:
    """One event on a connection of its own; tries again where the gateway is busy."""
    for _ in range(50):
        try:
            answer = web.post(address, headers={**HEADERS, "ce-id": str(number)}, timeout=10, verify=False)
        except httpx.TransportError:
            time.sleep(0.05)
            continue
        if answer.status_code != 503:
            return answer.status_code
        time.sleep(0.05)
    return 503


def connect(stack: ExitStack, address: str, count: int) -> list[socket.socket]:
    parts = urlsplit(address)
    return [stack.enter_context(socket.create_connection((parts.hostname, parts.port))) for _ in range(count)]


@pytest.mark.spec("SAFE-13")
def test_silent_connections_cost_no_delivery(tmp_path: Path) -> None:
    with Subscriber() as subscriber, limited(subscriber, tmp_path, 64, 80) as gateway, ExitStack() as stack:
        address = gateway.ingress()
        connect(stack, address, 200)
        assert [post(address, number) for number in range(100)] == [202] * 100
        connect(stack, address, 100)
        assert [post(address, number) for number in range(100, 150)] == [202] * 50
        gateway.wait_until(lambda: gateway.drained("all"), what="all deliveries")
        trigger = gateway.trigger("all")
        assert (trigger["delivered"], trigger["dead_lettered"]) == (150, 0)
        log = gateway.stderr.read_text()
        said = [line for line in log.splitlines() if "file descriptors are short" in line]
        assert 1 <= len(said) <= 4
        assert "limit 80" in said[0]  # the soft limit of 64 was raised
        assert "Traceback" not in log
        stack.close()
        assert gateway.stop() == 0
    assert {r.headers["ce-id"] for r in subscriber.requests} == {str(n) for n in range(150)}


@pytest.mark.spec("SAFE-77")
def test_idle_connections_to_subscribers_make_way_for_senders(tmp_path: Path) -> None:
    """After a burst the sinks keep their connections for a minute. Here they are all that can be closed."""
    import resource

    def slowly(request: object) -> int:
        time.sleep(0.1)  # so that each attempt needs a connection of its own
        return 202

    with Subscriber(decide=slowly) as subscriber, limited(subscriber, tmp_path, 4000, 4000) as gateway:
        address = gateway.ingress()
        assert [post(address, number) for number in range(30)] == [202] * 30
        gateway.wait_until(lambda: gateway.drained("all"))
        time.sleep(1)  # what was used a moment ago is not idle
        used = {int(f.name) for f in Path(f"/proc/{gateway.pid}/fd").iterdir()}
        free = next(number for number in count() if number not in used)
        resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE, (free, 4000))
        for number in range(30, 60):
            answer = web.post(address, headers={**HEADERS, "ce-id": str(number)}, timeout=20, verify=False)
            assert answer.status_code == 202
        assert gateway.admin("/health/live").status_code == 200
        gateway.wait_until(lambda: gateway.drained("all"))
        trigger = gateway.trigger("all")
        assert (trigger["delivered"], trigger["dead_lettered"]) == (60, 0)


@pytest.mark.spec("SAFE-13")
def test_silent_handshakes_make_way(tmp_path: Path) -> None:
    """With TLS, a client that never begins its handshake is a silent connection as well."""
    doors = Doors(tmp_path, limits="limits: {header_timeout_s: 60}")
    doors.gateway.launcher = ["sh", "-c", 'ulimit -n 90; exec "$@"', "sh"]
    with doors.subscriber, doors.gateway, ExitStack() as stack:
        host, port = doors.address("native with TLS")
        connect(stack, f"https://{host}:{port}", 150)
        url = f"https://{host}:{port}/"
        for number in range(20):
            headers = {**HEADERS, "ce-id": str(number)}
            assert web.post(url, headers=headers, verify=doors.trust, timeout=20).status_code == 202
        doors.gateway.wait_until(lambda: doors.gateway.drained("all"))
        trigger = doors.gateway.trigger("all")
        assert (trigger["delivered"], trigger["dead_lettered"]) == (20, 0)


@pytest.mark.spec("SAFE-13")
def test_no_descriptors_at_all_neither_spins_nor_ends_it(tmp_path: Path) -> None:
    """The limit is lowered to what is in use while it runs, and raised again."""
    import resource

    with Subscriber() as subscriber, limited(subscriber, tmp_path, 4000, 4000) as gateway, ExitStack() as stack:
        address = gateway.ingress()
        assert post(address, 0) == 202
        gateway.wait_until(lambda: gateway.drained("all"))
        used = max(int(f.name) for f in Path(f"/proc/{gateway.pid}/fd").iterdir()) + 1
        resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE, (used, 4000))
        connect(stack, address, 50)
        before = cpu_s(gateway.pid)
        time.sleep(2)
        assert cpu_s(gateway.pid) - before < 0.5
        assert re.search("accepting a connection failed: Too many open files", gateway.stderr.read_text())
        resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE, (4000, 4000))
        assert post(address, 1) == 202
        gateway.wait_until(lambda: gateway.drained("all"))
        assert gateway.trigger("all")["delivered"] == 2


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100
