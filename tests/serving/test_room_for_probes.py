"""Silent connections to the admin API keep out no probe: the longest silent ones make room."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest
from gateway_testing import GatewayProcess

from tests import web

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.spec("SAFE-103")]

MANY = 300  # the admin API takes 256
CONFIG = 'brokers: {default: {ingress: [{http: {listen: "127.0.0.1:0"}}]}}\n'


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(CONFIG, tmp_path_factory.mktemp("gateway")) as running:
        yield running


HELD = {
    "silent": b"",
    "half a head": b"GET /health/live HTTP/1.1\r\nHost: local",
    "half a body": b"POST /console/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nx",
    "answered": b"GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


@pytest.mark.parametrize("sent", HELD.values(), ids=HELD.keys())
def test_silent_connections_keep_out_no_probe(gateway: GatewayProcess, sent: bytes) -> None:
    parts = urlsplit(gateway.admin_url)
    address = (str(parts.hostname), int(parts.port or 0))
    with ExitStack() as stack:
        # a client in the middle of a request, as a stream is, stays
        kept = stack.enter_context(web.client(verify=False, headers=gateway.admin_headers, timeout=30))
        for number in range(2):
            for _ in range(MANY):
                sock = stack.enter_context(socket.create_connection(address, 20))
                if sent:
                    sock.sendall(sent)
            for path in ("/health/live", "/health/ready"):
                answer = web.get(f"{gateway.admin_url}{path}", verify=False, timeout=20)
                assert answer.status_code == 200, (number, path)
            assert kept.get(f"{gateway.admin_url}/status").status_code == 200


def test_a_stream_stays_while_silent_connections_come_and_go(gateway: GatewayProcess) -> None:
    parts = urlsplit(gateway.admin_url)
    address = (str(parts.hostname), int(parts.port or 0))
    with ExitStack() as stack:
        client = stack.enter_context(web.client(verify=False, headers=gateway.admin_headers, timeout=30))
        stream = stack.enter_context(client.stream("GET", f"{gateway.admin_url}/api/v1/tap?broker=default"))
        assert stream.status_code == 200
        for _ in range(2 * MANY):
            stack.enter_context(socket.create_connection(address, 20))
        assert web.get(f"{gateway.admin_url}/health/live", verify=False, timeout=20).status_code == 200
        event = {"ce-id": "1", "ce-source": "/s", "ce-type": "t", "ce-specversion": "1.0"}
        assert web.post(gateway.ingress(), headers=event, verify=False, timeout=20).status_code == 202
        assert next(line for line in stream.iter_lines() if "accepted" in line)
