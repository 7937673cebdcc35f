"""The contract's whole response table through a running gateway: each answer given to an event of its own, attempts
counted one by one where they arrive, and compared with what the dead letter says."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any

import pytest
from gateway_testing import GatewayProcess, Received, Subscriber
from gateway_testing.subscriber import Answer

from tests import web

pytestmark = pytest.mark.usefixtures("processes")


RETRIES = 2
CONFIG = """
brokers:
  default:
    ingress: [http: {listen: "127.0.0.1:0", path: /in}]
    delivery: {retry: 2, backoff_delay_s: 0.01, timeout_s: TIMEOUT}
triggers:
  table: {subscriber: "URL"}
"""


def send(gateway: GatewayProcess, *ids: str) -> None:
    with web.client(verify=False) as client:
        for id in ids:
            headers = {"ce-specversion": "1.0", "ce-id": id, "ce-source": "/table", "ce-type": "t"}
            assert client.post(gateway.ingress(), headers=headers, content=b"x").status_code == 202


@contextmanager
def gateway(folder: Path, url: str, timeout_s: float = 20, ids: Iterable[str] = ()) -> Iterator[GatewayProcess]:
    """With a trigger for each of these events: those of one trigger that find no answer count for all of its events."""
    config = CONFIG
    if ids:
        triggers = [f"  {id}: {{filter: {{id: {id}}}, subscriber: URL}}\n" for id in ids]
        config = config.replace('  table: {subscriber: "URL"}\n', "".join(triggers))
    config = config.replace("URL", url).replace("TIMEOUT", str(timeout_s))
    with GatewayProcess(config, folder) as g:
        yield g


def letters(g: GatewayProcess) -> dict[str, dict[str, Any]]:
    """The dead letters by event id, once all events are dealt with."""
    g.wait_until(g.drained, 60, "all events to be dealt with")
    found = {}
    for file in (g.data_dir / "dead-letter").glob("*.jsonl"):
        for line in file.read_text().splitlines():
            event = json.loads(line)["event"]
            assert event["id"] not in found, "one letter for each event"
            found[event["id"]] = event
    return found


def by_id(decide: Callable[[str], Answer]) -> Callable[[Received], Answer]:
    return lambda request: decide(request.headers["ce-id"])


def attempts(subscriber: Subscriber) -> Counter[str]:
    return Counter(r.headers["ce-id"] for r in subscriber.requests)


@pytest.mark.spec("DP-08", "DP-09", "DP-10", "DP-11", "DP-12", "DP-13", "DP-14", "DP-18", "BR-19")
def test_every_code(tmp_path: Path) -> None:
    codes = [101, *range(200, 600), 600, 601, 799, 999]
    with Subscriber(decide=by_id(int)) as s, gateway(tmp_path, s.url) as g:
        send(g, *map(str, codes))
        dead = letters(g)
        seen = attempts(s)
    for code in codes:
        retried = code in (404, 408, 409, 429) or code >= 500
        assert seen[str(code)] == (1 + RETRIES if retried else 1), code
        assert (str(code) in dead) == (not 200 <= code <= 299), code
        if letter := dead.get(str(code)):
            assert (letter["knativeerrorcode"], letter["tidegateattempts"]) == (str(code), seen[str(code)])


@pytest.mark.spec("DP-08", "DP-11", "DP-13", "DP-14", "DP-18")
def test_a_retry_that_succeeds_is_the_last_attempt(tmp_path: Path) -> None:
    lock, left = threading.Lock(), {f"{code}-{n}": n for code in (404, 408, 409, 429, 500, 503, 600) for n in (1, 2)}

    def decide(request: Received) -> Answer:
        id = request.headers["ce-id"]
        with lock:
            left[id] -= 1
            return int(id[:3]) if left[id] >= 0 else 202

    ids = list(left)
    with Subscriber(decide=decide) as s, gateway(tmp_path, s.url) as g:
        send(g, *ids)
        assert letters(g) == {}
        trigger = g.trigger("table")
        assert (trigger["delivered"], trigger["dead_lettered"]) == (len(ids), 0)
        assert attempts(s) == {id: int(id[-1]) + 1 for id in ids}


@pytest.mark.spec("DP-09")
def test_redirects_are_not_followed(tmp_path: Path) -> None:
    codes = ("300", "301", "302", "303", "305", "307", "308")
    with Subscriber() as elsewhere:
        to = {"location": elsewhere.url}
        with Subscriber(decide=by_id(lambda id: (int(id), to, b""))) as s, gateway(tmp_path, s.url) as g:
            send(g, *codes)
            assert {id: letter["knativeerrorcode"] for id, letter in letters(g).items()} == {c: c for c in codes}
            assert attempts(s) == dict.fromkeys(codes, 1)
        assert elsewhere.requests == []


@pytest.mark.spec("DP-22", "DP-23", "DP-25", "BR-22", "BR-23")
def test_what_a_200_and_a_202_carry(tmp_path: Path) -> None:
    reply = {"ce-specversion": "1.0", "ce-source": "/reply", "ce-type": "r"}
    answers: dict[str, Answer] = {
        "reply": (200, reply | {"ce-id": "the-reply"}, b"yes"),
        "accepted": (202, reply | {"ce-id": "no-reply"}, b"no"),
        "created": (201, reply | {"ce-id": "no-reply"}, b"no"),
        "empty": 200,
        "page": (200, {"content-type": "text/html"}, b"<p>"),
        "without-id": (200, reply, b""),
        "garbage": (200, {"content-type": "application/cloudevents+json"}, b"{"),
    }
    decide = by_id(lambda id: answers.get(id, 202))
    with Subscriber(decide=decide) as s, gateway(tmp_path, s.url) as g:
        send(g, *answers)
        s.wait_for(1 + len(answers) + 2 * RETRIES)
        dead = letters(g)
        seen = attempts(s)
    once = dict.fromkeys(("reply", "accepted", "created", "empty", "page", "the-reply"), 1)
    assert seen == {**once, "without-id": 1 + RETRIES, "garbage": 1 + RETRIES}
    assert {id: letter["knativeerrorcode"] for id, letter in dead.items()} == {"without-id": "200", "garbage": "200"}


# -- answers that no HTTP server gives ---------------------------------------------------------------------------------

RESET, HANG = b"\x00reset", b"\x00hang"
CLOSE = b"content-length: 0\r\nconnection: close\r\n\r\n"
RAW = {
    # answer: the bytes, then the connection ends; attempts; the code in the letter, None where it was delivered
    "closed": (b"", 1 + RETRIES, ""),
    "reset": (RESET, 1 + RETRIES, ""),
    "silent": (HANG, 1 + RETRIES, ""),
    "nonsense": (b"nonsense\r\n\r\n", 1 + RETRIES, ""),
    "no-code": (b"HTTP/1.1 OK\r\n" + CLOSE, 1 + RETRIES, ""),
    "bad-length": (b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n", 1 + RETRIES, ""),
    "half-a-head": (b"HTTP/1.1 202 Acc", 1 + RETRIES, ""),
    "half-a-body": (b"HTTP/1.1 202 Accepted\r\ncontent-length: 9\r\n\r\nhalf", 1 + RETRIES, ""),
    "only-interim": (b"HTTP/1.1 199 Wait\r\n\r\n", 1 + RETRIES, ""),
    "switching": (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", 1, "101"),
    "interim-then-202": (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 202 Accepted\r\n" + CLOSE, 1, None),
    "hints-then-204": (b"HTTP/1.1 103 Early Hints\r\nlink: </>\r\n\r\nHTTP/1.1 204 No\r\n\r\n", 1, None),
    "interim-then-400": (b"HTTP/1.1 199 Wait\r\n\r\nHTTP/1.1 400 Bad\r\n" + CLOSE, 1, "400"),
    "interim-then-503": (b"HTTP/1.1 102 Wait\r\n\r\nHTTP/1.1 503 No\r\n" + CLOSE, 1 + RETRIES, "503"),
    "until-the-end": (b"HTTP/1.1 200 OK\r\n\r\nto the end of the connection", 1, None),
}  # fmt: skip


class RawHandler(StreamRequestHandler):
    """One request a connection: so no attempt is repeated by a client for the connection's sake."""

    def handle(self) -> None:
        headers = {}
        for line in iter(self.rfile.readline, b"\r\n"):
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        self.rfile.read(int(headers["content-length"]))
        server: Any = self.server
        with server.lock:
            server.seen[headers["ce-id"]] += 1
        answer = RAW[headers["ce-id"]][0]
        if answer == HANG:
            self.connection.settimeout(30)
            self.connection.recv(1)  # until the gateway goes
        elif answer == RESET:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        else:
            self.wfile.write(answer)


@pytest.mark.spec("DP-08", "DP-09", "DP-10", "DP-13", "DP-14")
def test_answers_that_are_none_and_answers_in_pieces(tmp_path: Path) -> None:
    class Server(ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False

    with Server(("127.0.0.1", 0), RawHandler) as server:
        raw: Any = server
        raw.seen, raw.lock = Counter(), threading.Lock()
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        with gateway(tmp_path, f"http://127.0.0.1:{server.server_address[1]}/", 2, RAW) as g:
            send(g, *RAW)
            dead = letters(g)
        server.shutdown()
    assert raw.seen == {name: count for name, (_, count, _) in RAW.items()}
    found = {name: letter.get("knativeerrorcode", "") for name, letter in dead.items()}
    assert found == {name: code for name, (_, _, code) in RAW.items() if code is not None}
    assert {name: letter["tidegateattempts"] for name, letter in dead.items()} == {
        name: raw.seen[name] for name in dead
    }


@pytest.mark.spec("DP-14", "DP-18")
def test_nobody_listens(tmp_path: Path) -> None:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))  # bound, but nobody listens
        with gateway(tmp_path, f"http://127.0.0.1:{s.getsockname()[1]}/") as g:
            send(g, "1")
            (letter,) = letters(g).values()
            assert "knativeerrorcode" not in letter
            assert letter["tidegateattempts"] == 1 + RETRIES


# -- when -----------------------------------------------------------------------------------------------------------

TIMED = """
brokers:
  default:
    ingress: [http: {listen: "127.0.0.1:0", path: /in}]
    delivery: {retry: 5, backoff_delay_s: 0.1, backoff_max_s: 0.5}
triggers:
  exponential: {subscriber: "URLexponential"}
  linear: {subscriber: "URLlinear", delivery: {backoff: linear}}
  asked: {subscriber: "URLasked", delivery: {retry: 1}}
  capped: {subscriber: "URLcapped", delivery: {retry: 1, retry_after_max_s: 1}}
"""


@pytest.mark.spec("DP-17", "DP-18")
def test_waits_are_never_shorter_than_half_their_ceiling(tmp_path: Path) -> None:
    answers: dict[str, Answer] = {
        "/exponential": 503,
        "/linear": 503,
        "/asked": (429, {"retry-after": "1"}, b""),
        "/capped": (503, {"retry-after": "3600"}, b""),
    }
    with Subscriber(decide=lambda r: answers[r.path]) as s:
        with GatewayProcess(TIMED.replace("URL", s.url), tmp_path) as g:
            send(g, "1")
            g.wait_until(g.drained, 60, "all events to be dealt with")
        times = {path: [r.time for r in s.requests if r.path == path] for path in answers}
    ceilings = {
        "/exponential": [min(0.5, 0.1 * 2 ** (n - 1)) for n in range(1, 6)],
        "/linear": [min(0.5, 0.1 * n) for n in range(1, 6)],
    }
    for path, ceiling in ceilings.items():
        waits = [b - a for a, b in pairwise(times[path])]
        assert len(waits) == 5
        assert [n for n, (wait, c) in enumerate(zip(waits, ceiling, strict=True), 1) if wait < c / 2 - 0.002] == []
    for path in ("/asked", "/capped"):
        first, second = times[path]
        assert second - first >= 0.998
