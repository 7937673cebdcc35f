"""DNS rebinding: a page whose host name is later resolved to this machine reaches no listener, at no door."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import h2.config
import h2.connection
import h2.events
import pytest
from gateway_serving.hosts import HostName, Hosts, origin_form
from gateway_testing import GatewayProcess, Subscriber
from pydantic import TypeAdapter, ValidationError

pytestmark = pytest.mark.spec("SAFE-102")

LOCAL = [
    "localhost",
    "LOCALHOST:80",
    "127.0.0.1",
    "127.0.0.1:65535",
    "[::1]",
    "[::1]:9",
    "127.8.9.1",
    "a.localhost",
    "",
]
FOREIGN = [
    *("evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "evil-localhost"),
    *("10.0.0.1", "0.0.0.0", "[::2]", "x", "localhost, evil.example", "evil.example#localhost", "[::1", "localhost:a"),
]


@pytest.mark.parametrize("listens_on", ["127.0.0.1", "localhost", "::1"])
def test_a_local_listener_answers_to_names_of_this_machine(listens_on: str) -> None:
    hosts = Hosts(listens_on)
    assert [host for host in LOCAL if not hosts.allow(host)] == []
    assert [host for host in FOREIGN if hosts.allow(host)] == []
    assert "`hosts`" in hosts.refusal(b"evil.example\xff")
    assert len(hosts.refusal(b"x" * 10_000)) < 400


@pytest.mark.parametrize("listens_on", ["", "0.0.0.0", "::", "192.168.1.5", "gateway.example"])
def test_a_listener_for_other_machines_answers_to_every_name_unless_it_names_some(listens_on: str) -> None:
    assert all(map(Hosts(listens_on).allow, [*LOCAL, *FOREIGN]))
    some = Hosts(listens_on, ["gw.example", "*.tunnel.example"])
    for host in ("gw.example", "GW.example.:443", "a.b.tunnel.example", "10.0.0.1", "localhost"):
        assert some.allow(host)
    for host in ("tunnel.example", "evil.example", "gw.example.evil", "xtunnel.example"):
        assert not some.allow(host)
    assert Hosts("127.0.0.1", ["*"]).allow("evil.example")


@pytest.mark.parametrize("name", ["gw.example", "*.example.com", "*", "10.0.0.1", "GW.Example."])
def test_names_in_a_config(name: str) -> None:
    assert TypeAdapter(HostName).validate_python(name) == name.lower().removesuffix(".")
    with pytest.raises(ValidationError, match="without scheme and port"):
        TypeAdapter(HostName).validate_python(f"http://{name}:8080/")


@pytest.mark.parametrize(
    ("target", "origin"),
    [
        (b"/a?b=c://d/e", b"/a?b=c://d/e"),
        (b"*", b"*"),
        (b"h.example:80", b"h.example:80"),
        (b"http://h.example/a/b?c=d", b"/a/b?c=d"),
        (b"http://h.example", b"/"),
        (b"http://h.example?c=/d", b"/?c=/d"),
        (b"http://h.example//a", b"//a"),
    ],
)
def test_the_origin_form_of_a_request_target(target: bytes, origin: bytes) -> None:
    assert origin_form(target) == origin


ADMIN = {"admin": "/health/live", "console": "/console/login", "metrics": "/metrics"}
DOORS = ["native", "hypercorn", "hypercorn h2", "fn", "websocket", "pull", *ADMIN]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with Subscriber() as subscriber:
        hosts = "hosts: [gw.example]"
        config = f"""
brokers:
  default:
    ingress:
      - http: {{listen: "127.0.0.1:0", {hosts}}}
      - http: {{listen: "127.0.0.1:0", server: hypercorn, {hosts}}}
      - fn: {{listen: "127.0.0.1:0", function: "{subscriber.url}", {hosts}}}
      - websocket: {{listen: "127.0.0.1:0", {hosts}}}
triggers:
  all: {{subscriber: {{pull: {{listen: "127.0.0.1:0", path: /sub, {hosts}}}}}}}
"""
        env = {"TIDEGATE_ADMIN_HOSTS": "gw.example"}
        with GatewayProcess(config, tmp_path_factory.mktemp("gateway"), env) as running:
            yield running


def status_of(gateway: GatewayProcess, door: str, host: str, base: str = "") -> int:
    status = gateway.status()
    urls = dict(zip(["native", "hypercorn", "fn", "websocket"], status["brokers"][0]["ingress"], strict=True))
    urls["hypercorn h2"] = urls["hypercorn"]
    urls["pull"] = status["triggers"][0]["subscriber"] + "/events"
    urls |= {name: gateway.admin_url + path for name, path in ADMIN.items()}
    parts = urlsplit(urls[door])
    with socket.create_connection((str(parts.hostname), int(parts.port or 0)), 20) as sock:
        if door == "hypercorn h2":
            return _http2(sock, host)
        method = "GET" if door in ("websocket", "pull", *ADMIN) else "POST"
        more = ""
        if door == "websocket":
            more = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            more += "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: cloudevents.json\r\n"
        elif method == "POST":
            more = "ce-id: 1\r\nce-source: /s\r\nce-type: t\r\nce-specversion: 1.0\r\nContent-Length: 0\r\n"
        if door == "metrics":
            more = f"Authorization: {gateway.admin_headers['authorization']}\r\n"
        head = f"{method} {base}{parts.path or '/'} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n"
        sock.sendall(head.encode())
        answer = sock.recv(65536)
        return int(answer.split(b" ")[1])


def _http2(sock: socket.socket, host: str) -> int:
    client = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding=None))
    client.initiate_connection()
    fields = {":method": "POST", ":path": "/", ":scheme": "http", ":authority": host, "ce-id": "1", "ce-source": "/s"}
    fields |= {"ce-type": "t", "ce-specversion": "1.0"}
    client.send_headers(1, list(fields.items()), end_stream=True)
    sock.sendall(client.data_to_send())
    while data := sock.recv(65536):
        for event in client.receive_data(data):
            if isinstance(event, h2.events.ResponseReceived):
                return int(dict(event.headers or [])[b":status"])
    raise AssertionError("no response")


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("door", DOORS)
def test_no_door_answers_to_a_foreign_name(gateway: GatewayProcess, door: str) -> None:
    refused = 403 if door in ADMIN else 421
    assert status_of(gateway, door, "evil.example") == refused
    assert status_of(gateway, door, "127.0.0.1.evil.example:80") == refused
    for host in ("localhost", "127.0.0.1:1", "[::1]", "gw.example", "gw.example:443"):
        assert status_of(gateway, door, host) in (101, 200, 202, 204), host


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("door", [door for door in DOORS if door != "hypercorn h2"])
def test_the_name_in_an_absolute_target_replaces_host(gateway: GatewayProcess, door: str) -> None:
    """RFC 9112 section 3.2.2."""
    refused = 403 if door in ADMIN else 421
    for base in ("http://evil.example", "http://localhost@evil.example:80", "x://evil.example"):
        assert status_of(gateway, door, "localhost", base) == refused, base
    for base in ("http://gw.example:1", "http://localhost", "HTTP://127.0.0.1:80"):
        assert status_of(gateway, door, "evil.example", base) in (101, 200, 202, 204), base
