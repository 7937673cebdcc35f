"""`tidegate listen`: from a whole gateway to a server here."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from gateway_testing import GatewayProcess, Subscriber
from gateway_testing.arrival import read
from gateway_testing.subscriber import Answer, Received

from tests import web
from tests.command_line import tidegate
from tests.pull.test_pull_gateway import send
from tests.websocket.rig import free_port

pytestmark = pytest.mark.usefixtures("processes")

CONFIG = """
brokers: {default: {ingress: [http: {listen: "127.0.0.1:0"}], dead_letter: {file: {path: dead.jsonl}}}}
triggers:
  orders:
    subscriber: {pull: {listen: "127.0.0.1:%d", path: /orders, lease_s: 2, token: s3cret}}
    delivery: {retry: 3, backoff_delay_s: 0}
"""


@contextmanager
def listening(port: int, folder: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "gateway_core.cli", "listen", f"http://127.0.0.1:{port}/orders"]
    with (folder / "listen.out").open("ab") as out, (folder / "listen.err").open("ab") as err:
        process = subprocess.Popen([*command, "--token", "s3cret", *options], stdout=out, stderr=err)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


@pytest.mark.spec("PL-07")
def test_it_forwards_retries_waits_and_connects_again(tmp_path: Path) -> None:
    port, local = free_port(), free_port()
    answers: list[Answer] = [503, 400]
    arrived: list[str] = []

    def decide(request: Received) -> Answer:
        arrival = read(request)
        assert arrival.mode == "binary"
        arrived.append(arrival.attributes["id"])
        return answers.pop(0) if answers else 202

    def log() -> str:
        return (tmp_path / "listen.err").read_text()

    with GatewayProcess(CONFIG % port, tmp_path) as gateway:
        send(gateway, "a1")
        url = f"http://127.0.0.1:{local}/in"
        with listening(port, tmp_path, "--forward", url, "--in-flight", "1") as process:
            gateway.wait_until(lambda: "events wait for it" in log(), what="the server to be missed")
            with Subscriber(decide=decide, port=local):
                gateway.wait_until(lambda: len(arrived) == 2, what="the 503 and the 400")
                send(gateway, "a2")
                gateway.wait_until(gateway.drained, what="all to be settled")
                assert arrived == ["a1", "a1", "a2"]
                (letter,) = (tmp_path / "dead.jsonl").read_text().splitlines()
                assert json.loads(letter)["id"] == "a1"
                gateway.kill()
                _until(lambda: "can't be reached, trying again" in log())
                gateway.start()
                send(gateway, "a3")
                gateway.wait_until(lambda: "a3" in arrived, what="the event after the restart")
                gateway.wait_until(gateway.drained, what="all to be settled")
                assert "again" in log().rpartition("trying again")[2]
                assert "→ 202 in" in log()
                process.send_signal(signal.SIGINT)
                assert process.wait(30) == 0


def _until(condition) -> None:  # type: ignore[no-untyped-def]
    import time

    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.spec("PL-07")
def test_it_prints_counts_and_says_what_is_wrong(tmp_path: Path) -> None:
    port = free_port()
    with GatewayProcess(CONFIG % port, tmp_path) as gateway:
        send(gateway, "a1", "a2", "a3")
        url = f"http://127.0.0.1:{port}/orders"
        done = tidegate("listen", url, "--print", "--count", "2", "--token", "s3cret")
        assert done.returncode == 0, done.stderr
        assert sorted(json.loads(line)["id"] for line in done.stdout.splitlines()) == ["a1", "a2"]
        wrong = tidegate("listen", url, "--print", "--token", "other")
        assert (wrong.returncode, wrong.stdout) == (1, "")
        assert "401: This needs the right bearer token" in wrong.stderr
        assert "other" not in wrong.stderr
        assert tidegate("listen", url + "x", "--print", "--token", "s3cret").returncode == 1
        assert tidegate("listen", url).returncode == 2
        assert tidegate("listen", "nowhere", "--print").returncode == 1
        for target in ("localhost:3000/in", "http://localhost:port/", "http:///in", "ftp://localhost/"):
            mistake = tidegate("listen", url, "--forward", target, "--token", "s3cret")
            assert mistake.returncode == 2, target
            assert "Traceback" not in mistake.stderr
        gateway.wait_until(lambda: gateway.trigger("orders")["delivered"] == 2, what="two to be delivered")


@pytest.mark.spec("PL-07")
def test_printed_events_keep_their_values_and_spare_the_terminal(tmp_path: Path) -> None:
    port = free_port()
    data = "a\u2028b\x85c\x9b2Jd\u202ee\x7f\U000e0001é"
    event = {"specversion": "1.0", "source": "/s", "type": "t", "id": "1", "data": data}
    with GatewayProcess(CONFIG % port, tmp_path) as gateway:
        text = json.dumps(event, ensure_ascii=False).encode()
        kind = {"content-type": "application/cloudevents+json"}
        assert web.post(gateway.ingress(), content=text, headers=kind, verify=False).status_code == 202
        url = f"http://127.0.0.1:{port}/orders"
        done = tidegate("listen", url, "--print", "--count", "1", "--token", "s3cret")
        (line,) = done.stdout.split("\n")[:-1]
        assert line.isprintable()
        assert json.loads(line)["data"] == data


@pytest.mark.spec("PL-07")
def test_a_closed_output_ends_it_and_its_event_comes_again(tmp_path: Path) -> None:
    port = free_port()
    with GatewayProcess(CONFIG % port, tmp_path) as gateway:
        send(gateway, "a1")
        command = [sys.executable, "-m", "gateway_core.cli", "listen", f"http://127.0.0.1:{port}/orders", "--print"]
        reader, writer = os.pipe()
        os.close(reader)
        try:
            done = subprocess.run(
                [*command, "--token", "s3cret"], stdout=writer, stderr=subprocess.PIPE, timeout=120, check=False
            )
        finally:
            os.close(writer)
        assert b"Traceback" not in done.stderr
        assert b"Exception" not in done.stderr
        again = tidegate("listen", f"http://127.0.0.1:{port}/orders", "--print", "--count", "1", "--token", "s3cret")
        assert json.loads(again.stdout)["id"] == "a1"
