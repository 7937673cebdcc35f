"""Live events, as commands and the admin API show them."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from gateway_testing import Subscriber
from gateway_testing.process import GatewayProcess

from tests import web

pytestmark = pytest.mark.usefixtures("processes")


CONFIG = """
brokers:
  default: {{ingress: [http: {{listen: "127.0.0.1:0"}}]}}
  other: {{ingress: [http: {{listen: "127.0.0.1:0"}}]}}
triggers:
  all: {{subscriber: "{url}", delivery: {{retry: 1, backoff_delay_s: 0.01}}}}
bridges:
  direct: {{source: {{http: {{listen: "127.0.0.1:0"}}}}, sink: "{url}"}}
"""


@contextmanager
def running(folder: Path, url: str, *flags: str, config: str = CONFIG) -> Iterator[GatewayProcess]:
    with GatewayProcess(config.format(url=url), folder, None, *flags) as gateway:
        yield gateway


@contextmanager
def tap(gateway: GatewayProcess, **query: Any) -> Iterator[Iterator[tuple[str, Any]]]:
    """An open tap: its events as (kind, value). What is sent from here on is seen."""
    url, headers = f"{gateway.admin_url}/api/v1/tap", gateway.admin_headers

    def events(lines: Iterator[str]) -> Iterator[tuple[str, Any]]:
        kind = ""
        for line in lines:
            name, _, value = line.partition(": ")
            if name == "event":
                kind = value
            elif name == "data":
                yield kind, json.loads(value)

    with web.stream("GET", url, params=query, timeout=30, verify=False, headers=headers) as response:
        assert response.status_code == 200, response.read()
        found = events(response.iter_lines())
        assert next(found)[0] == "open"
        yield found


def send(url: str, id: str, type: str = "t", data: bytes = b'{"n": 1}', **headers: str) -> int:
    attributes = {"ce-specversion": "1.0", "ce-id": id, "ce-source": "/s", "ce-type": type, **headers}
    return web.post(
        url, content=data, headers={"content-type": "application/json", **attributes}, verify=False
    ).status_code


def test_what_is_accepted_is_seen(tmp_path: Path) -> None:
    with Subscriber() as subscriber, running(tmp_path, subscriber.url) as gateway:
        with tap(gateway) as events:
            send(gateway.ingress(), "1", **{"ce-subject": "x"})  # type: ignore[arg-type]
            send(gateway.ingress("other"), "2")
            send(gateway.ingress(), "")
            lines = [next(events)[1] for _ in range(3)]
        first, second, third = lines
        assert (first["kind"], first["broker"], first["bytes"], "data" in first) == ("accepted", "default", 8, False)
        assert first["event"]["id"] == "1"
        assert first["event"]["subject"] == "x"
        assert (second["broker"], second["event"]["id"]) == ("other", "2")
        assert (third["kind"], third["code"], "id" in third["reason"]) == ("refused", 400, True)
        with tap(gateway, broker="other", data_bytes="4") as events:
            send(gateway.ingress(), "3")
            send(gateway.ingress("other"), "4")
            line = next(events)[1]
        assert (line["event"]["id"], line["data"], line["bytes"]) == ("4", '{"n"', 8)
        with tap(gateway, broker="direct") as events:  # a bridge accepts what its sink has taken
            send(gateway.ingress("direct"), "5")
            line = next(events)[1]
        assert (line["kind"], line["trigger"], line["delivered"]) == ("attempt", "direct", True)


@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        (["type LIKE 'order.%'"], ["1", "3"]),
        (["type LIKE 'order.%'", "id=3"], ["3"]),
        (["type = 'order.paid' OR id = '2'"], ["2", "3"]),
    ],
)
def test_a_filter_chooses(tmp_path: Path, filters: list[str], wanted: list[str]) -> None:
    with running(tmp_path, "http://127.0.0.1:9/") as gateway, tap(gateway, filter=filters) as events:
        for id, type in (("1", "order.new"), ("2", "stock"), ("3", "order.paid")):
            send(gateway.ingress(), id, type)
        assert [next(events)[1]["event"]["id"] for _ in wanted] == wanted


def test_attempts_are_seen_with_their_outcome(tmp_path: Path) -> None:
    with (
        Subscriber([202, 503, 503]) as subscriber,
        running(tmp_path, subscriber.url) as gateway,
        tap(gateway, trigger="all") as events,
    ):
        send(gateway.ingress(), "1")
        good = next(events)[1]
        send(gateway.ingress(), "2")
        bad, worse, dead = (next(events)[1] for _ in range(3))
    assert (good["event"]["id"], good["delivered"], good["code"]) == ("1", True, 202)
    assert good["ms"] > 0
    assert [(line["event"]["id"], line["delivered"], line["code"], line["retry"]) for line in (bad, worse)] == [
        ("2", False, 503, True)
    ] * 2
    assert (dead["kind"], dead["attempts"], dead["event"]["id"]) == ("dead_lettered", 2, "2")
    assert "tidegatereason" not in dead["event"]


@pytest.mark.parametrize(
    ("query", "status", "detail"),
    [
        ({"broker": "nobody"}, 404, "there is no broker or bridge 'nobody'"),
        ({"trigger": "nobody"}, 404, "there is no trigger 'nobody'"),
        ({"filter": "type LIKE"}, 422, "the filter 'type LIKE' can't be used"),
        ({"data_bytes": "all"}, 422, "data_bytes must be a number"),
        ({"typ": "x"}, 422, "unknown parameters: typ"),
    ],
)
def test_a_tap_that_can_not_be(tmp_path: Path, query: dict[str, str], status: int, detail: str) -> None:
    with running(tmp_path, "http://127.0.0.1:9/") as gateway:
        url, headers = f"{gateway.admin_url}/api/v1/tap", gateway.admin_headers
        answer = web.get(url, params=query, verify=False, headers=headers)
    assert (answer.status_code, detail in answer.json()["detail"]) == (status, True)


def test_it_ends_with_the_gateway(tmp_path: Path) -> None:
    with running(tmp_path, "http://127.0.0.1:9/") as gateway, tap(gateway) as events, ThreadPoolExecutor(1) as other:
        stopped = other.submit(gateway.stop)
        assert list(events)[-1] == ("end", {"reason": "the gateway is stopping"})
        assert stopped.result() == 0


def test_a_reload_is_followed(tmp_path: Path) -> None:
    with Subscriber() as subscriber, running(tmp_path, subscriber.url) as gateway, tap(gateway) as events:
        more = '\n  third: {ingress: [http: {listen: "127.0.0.1:0"}]}\ntriggers'
        gateway.config.write_text(CONFIG.format(url=subscriber.url).replace("\ntriggers", more))
        gateway.wait_until(lambda: "third" in [b["name"] for b in gateway.status()["brokers"] if b["ready"]])
        send(gateway.ingress("third"), "1")
        assert next(events)[1]["broker"] == "third"


def test_what_all_workers_accept_is_seen(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        config = (
            f'brokers: {{{{default: {{{{ingress: [http: {{{{listen: "127.0.0.1:{free.getsockname()[1]}"}}}}]}}}}}}}}'
        )
    with running(tmp_path, "", "--workers", "2", config=config) as gateway:
        gateway.wait_until(lambda: len(gateway.status()["processes"]) == 2)
        with tap(gateway) as events:
            shards: set[int] = set()
            for n in range(200):
                send(gateway.ingress(), str(n))  # a new connection each: either worker may take it
                line = next(events)[1]
                assert line["event"]["id"] == str(n)
                shards.add(line["position"] >> 48)
                if len(shards) == 2:
                    break
        assert shards == {0, 1}


_COMMAND = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background has it ignored
from gateway_core.cli import main
main()
"""


@contextmanager
def tidegate(gateway: GatewayProcess, *args: str) -> Iterator[subprocess.Popen[str]]:
    """The command `tidegate tap`; it is gone afterwards, whatever becomes of the test."""
    command = [sys.executable, "-c", _COMMAND, "tap", "--data-dir", str(gateway.data_dir), *args]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def seen(gateway: GatewayProcess, process: subprocess.Popen[str]) -> str:
    """The first line that the command shows. Nobody knows when it has begun to look: events are sent until it does."""
    number = iter(range(1_000_000))
    assert process.stdout is not None
    lines: list[str] = []

    def look() -> None:
        assert process.stdout is not None
        lines.append(process.stdout.readline())

    reader = threading.Thread(target=look)
    reader.start()
    gateway.wait_until(lambda: send(gateway.ingress(), f"n-{next(number)}") and lines)
    reader.join()
    return lines[0]


def test_the_command_ends_after_a_count(tmp_path: Path) -> None:
    with (
        running(tmp_path, "http://127.0.0.1:9/") as gateway,
        tidegate(gateway, "--count", "1", "--json", "--data") as process,
    ):
        line = json.loads(seen(gateway, process))
        assert (line["kind"], line["data"]) == ("accepted", '{"n": 1}')
        assert process.wait(30) == 0
        assert process.communicate()[0] == ""


def test_the_command_ends_with_ctrl_c_and_leaves_no_tap(tmp_path: Path) -> None:
    with running(tmp_path, "http://127.0.0.1:9/") as gateway, tidegate(gateway) as process:
        assert "default  t  /s  n-" in seen(gateway, process)
        process.send_signal(signal.SIGINT)
        assert (process.wait(30), "Traceback" in process.communicate()[1]) == (0, False)
