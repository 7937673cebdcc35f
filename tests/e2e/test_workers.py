"""Several workers: who runs what, what plugins may print, how they end and begin again."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from gateway_testing import GatewayProcess, Subscriber
from gateway_workers.wire import Note, Wire

from tests import web
from tests.ledger import body_of, free_port, headers
from tests.planted import install
from tests.processes import descendants, gone

POLL = '''
import os, anyio
from pathlib import Path
from gateway_core.contract.component import Component, Config, Transport
from gateway_core.contract.event import Event
from gateway_core.contract.hookspecs import hookimpl

class Options(Config):
    """A queue: a folder with a file for each message."""
    path: Path
    """Where it is."""

class Poll:
    pulls = True
    SHARES

    def __init__(self, options, context):
        self.address = f"poll:{options.path}"
        self._path = options.path
        self._stopped = False

    async def start(self, intake, tasks):
        print("5", flush=True)  # what no worker's message is
        print('{"status": 5}', flush=True)
        self._tell("began")
        tasks.start_soon(self._run, intake)

    async def stop(self):
        self._stopped = True
        self._tell("ended")

    def _tell(self, what):
        with open(self._path.with_suffix(".told"), "a") as out:
            out.write(f"{os.getpid()} {what}\\n")

    async def _run(self, intake):
        seen = set()
        while not self._stopped:
            for file in sorted(self._path.iterdir()):
                if file.name not in seen:
                    seen.add(file.name)
                    event = Event({"specversion": "1.0", "id": file.name, "source": "/q", "type": "t"}, None)
                    intake.accept([event], lambda error: None)
            await anyio.sleep(0.05)

    def info(self):
        return {"address": self.address, "error": None, "lag": 3}

@hookimpl
def gateway_transports():
    return [Transport("poll", source=Component("poll", "A test's.", Options, Poll))]
'''
BROKER = """
brokers:
  default:
    ingress:
      - http: {listen: "127.0.0.1:PORT"}
      - poll: {path: QUEUE}
triggers:
  all: {subscriber: URL}
"""
BRIDGE = """
bridges:
  default:
    source: {poll: {path: QUEUE}}
    sink: URL
"""


def start(tmp_path: Path, text: str, url: str, shares: str = "", **env: str) -> GatewayProcess:
    (tmp_path / "queue").mkdir()
    text = text.replace("QUEUE", str(tmp_path / "queue")).replace("URL", url).replace("PORT", str(free_port()))
    env = {**install(tmp_path, POLL.replace("SHARES", shares)), **env}
    return GatewayProcess(text, tmp_path, env, "--workers", "2")


def put(tmp_path: Path, numbers: range) -> None:
    for number in numbers:
        (tmp_path / f"queue/{number}").touch()


def ids(subscriber: Subscriber) -> set[str]:
    return {request.headers["ce-id"] for request in subscriber.requests}


def told(tmp_path: Path) -> list[list[str]]:
    return [line.split() for line in (tmp_path / "queue.told").read_text().splitlines()]


def status(gateway: GatewayProcess) -> dict[str, Any]:
    """Nothing while the worker that answers is down."""
    try:
        return gateway.status()
    except httpx.TransportError:
        return {"processes": [], "brokers": [], "bridges": [], "triggers": []}


def both(gateway: GatewayProcess) -> bool:
    return len(status(gateway)["processes"]) == 2


def lags(gateway: GatewayProcess, section: str) -> list[int]:
    return [info["lag"] for entry in status(gateway)[section] for info in entry["sources"]]


@pytest.mark.spec("SAFE-06")
@pytest.mark.parametrize("text", [BROKER, pytest.param(BRIDGE, marks=pytest.mark.full)], ids=["broker", "bridge"])
@pytest.mark.usefixtures("processes")
def test_a_source_that_fetches_runs_in_one_worker_and_moves_when_that_one_dies(tmp_path: Path, text: str) -> None:
    with Subscriber() as s, start(tmp_path, text, s.url) as gateway:
        gateway.wait_until(lambda: both(gateway))
        put(tmp_path, range(100))
        gateway.wait_until(lambda: len(s.requests) >= 100, 60, "100 events")
        time.sleep(1)  # in which a second one would have been through
        assert len(s.requests) == 100
        ((first, _),) = told(tmp_path)
        section = "brokers" if text is BROKER else "bridges"
        assert lags(gateway, section) == [3]
        os.kill(int(first), signal.SIGKILL)
        gateway.wait_until(lambda: len(told(tmp_path)) == 2, 60, "another worker")
        second = told(tmp_path)[1][0]
        assert second != first
        put(tmp_path, range(100, 110))
        gateway.wait_until(
            lambda: {str(n) for n in range(110)} <= {r.headers["ce-id"] for r in s.requests}, 20, "events"
        )
        gateway.wait_until(lambda: both(gateway), 60, "the worker to be back")
        assert len(told(tmp_path)) == 2  # where it is it stays
        gateway.wait_until(lambda: lags(gateway, section) == [3])
        assert gateway.stop() == 0
        assert told(tmp_path)[2:] == [[second, "ended"]]


@pytest.mark.spec("SAFE-06")
@pytest.mark.usefixtures("processes")
def test_a_source_that_hangs_moves_once_its_worker_is_dead(tmp_path: Path) -> None:
    with Subscriber() as s, start(tmp_path, BROKER, s.url, TIDEGATE_WATCHDOG_S="2") as gateway:
        gateway.wait_until(lambda: both(gateway))
        ((first, _),) = told(tmp_path)
        os.kill(int(first), signal.SIGSTOP)
        time.sleep(4)
        assert len(told(tmp_path)) == 1  # it may go on any time: no second one
        os.kill(int(first), signal.SIGCONT)
        put(tmp_path, range(5))
        gateway.wait_until(lambda: len(s.requests) == 5, 60, "events")
        assert gateway.stop() == 0


@pytest.mark.spec("SAFE-06")
@pytest.mark.usefixtures("processes")
def test_a_source_that_shares_runs_in_every_worker(tmp_path: Path) -> None:
    with Subscriber() as s, start(tmp_path, BROKER, s.url, "shares = True") as gateway:
        gateway.wait_until(lambda: len(told(tmp_path)) == 2, 60, "both")
        put(tmp_path, range(10))
        gateway.wait_until(lambda: len(s.requests) == 20, 60, "events")
        assert gateway.stop() == 0


@pytest.mark.spec("SAFE-06")
@pytest.mark.usefixtures("processes")
def test_a_reload_gives_one_worker_a_source_that_is_new(tmp_path: Path) -> None:
    with Subscriber() as s, start(tmp_path, BROKER, s.url) as gateway:
        gateway.wait_until(lambda: both(gateway))
        (tmp_path / "more").mkdir()
        more = f"poll: {{path: {tmp_path / 'more'}}}\n      - "
        text = gateway.config.read_text().replace("poll: {path: ", f"{more}poll: {{path: ")
        gateway.config.write_text(text)
        gateway.wait_until(lambda: (tmp_path / "more.told").exists(), 60, "the reload")
        (tmp_path / "more/1").touch()
        s.wait_for(1)
        time.sleep(1)
        assert len(s.requests) == 1
        gateway.config.write_text(text.replace(more, ""))
        gateway.wait_until(lambda: "ended" in (tmp_path / "more.told").read_text(), 60, "the second reload")
        assert len((tmp_path / "more.told").read_text().splitlines()) == 2
        assert gateway.stop() == 0


@pytest.mark.anyio
@pytest.mark.spec("SAFE-06")
async def test_lines_that_say_nothing_are_dropped(caplog: pytest.LogCaptureFixture) -> None:
    ours, theirs = socket.socketpair()
    wire = Wire(ours, "worker 1")
    await wire.open()
    with theirs, caplog.at_level(logging.WARNING):
        for line in (
            b"5",
            b"null",
            b"[]",
            b'"x"',
            b"{",
            b"{}",
            b'{"kind":"other"}',
            b"\xff",
            b"[" * 5000,
            b'{"kind":5}',
        ):
            theirs.sendall(line + b"\n")
        theirs.sendall(b'{"kind":"beat"}\nand no end')
        theirs.shutdown(socket.SHUT_WR)
        with anyio.fail_after(60):
            heard = [note async for note in wire.notes()]
    wire.close()
    assert heard == [Note("beat")]
    assert len(caplog.records) == 11
    assert all("dropped" in record.getMessage() for record in caplog.records)


def accepted(gateway: GatewayProcess, number: int) -> bool:
    try:
        answer = web.post(gateway.ingress(), content=body_of(number), headers=headers(number), timeout=5, verify=False)
    except httpx.TransportError:
        return False
    return answer.status_code == 202


@pytest.mark.spec("SAFE-07")
@pytest.mark.parametrize("which", [0, pytest.param(1, marks=pytest.mark.full)])
@pytest.mark.usefixtures("processes")
def test_any_worker_may_be_killed_and_service_goes_on(tmp_path: Path, which: int) -> None:
    """The one that answers for all, too."""
    with Subscriber() as s, start(tmp_path, BROKER, s.url) as gateway:
        gateway.wait_until(lambda: both(gateway))
        for number in range(20):
            assert accepted(gateway, number)
        gateway.wait_until(lambda: gateway.status()["brokers"][0]["accepted"] == 20)
        time.sleep(1.1)  # so that the supervisor knows the counts
        pid = gateway.status()["processes"][which]["pid"]
        os.kill(pid, signal.SIGKILL)
        gone({pid})
        for number in range(20, 40):
            gateway.wait_until(lambda n=number: accepted(gateway, n), 60, "an event to be accepted")

        def all_counted() -> bool:
            return both(gateway) and sum(b["accepted"] for b in status(gateway)["brokers"]) == 40

        gateway.wait_until(all_counted, 60, "both, and the counts of all")
        assert gateway.status()["pid"] == gateway.pid
        gateway.wait_until(lambda: {str(n) for n in range(40)} <= ids(s), 60, "all")
        assert gateway.stop() == 0
        assert not descendants(gateway.pid)


@pytest.mark.spec("SAFE-07")
@pytest.mark.usefixtures("processes")
def test_a_storm_of_reloads_and_kills_leaves_a_gateway_that_works(tmp_path: Path) -> None:
    with Subscriber() as s, start(tmp_path, BROKER, s.url) as gateway:
        gateway.wait_until(lambda: both(gateway))
        text = gateway.config.read_text()
        for number in range(20):
            gateway.config.write_text(text + f"  more{number}: {{subscriber: '{s.url}more', filter: {{type: none}}}}\n")
            os.kill(gateway.pid, signal.SIGHUP)
            if number in (8, 16):  # in the middle of a reload
                gateway.wait_until(lambda: descendants(gateway.pid))  # one may be away
                workers = sorted(descendants(gateway.pid))
                os.kill(workers[min(number // 8, len(workers)) - 1], signal.SIGKILL)
            time.sleep(0.05)

        def settled() -> bool:
            return both(gateway) and "more19" in {t["name"] for t in status(gateway)["triggers"]}

        gateway.wait_until(settled, 60, "the last config")
        assert accepted(gateway, 1)
        assert {r.headers["ce-id"] for r in s.wait_for(1)} == {"1"}
        assert gateway.stop() == 0


@pytest.mark.spec("SAFE-07")
@pytest.mark.usefixtures("processes")
def test_signals_while_it_starts_end_it(tmp_path: Path) -> None:
    with Subscriber() as s:
        gateway = start(tmp_path, BROKER, s.url)
        for wait_s in (0.1, 0.6, 1.5):
            with suppress(AssertionError):
                gateway.start(timeout_s=wait_s)
            workers = descendants(gateway.pid)
            os.kill(gateway.pid, signal.SIGTERM)
            assert gateway.stop() in (0, -signal.SIGTERM, 130)
            gone(workers)


@pytest.mark.spec("SAFE-07")
@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.usefixtures("processes")
def test_a_gateway_without_standard_input_starts_and_stops(tmp_path: Path, workers: str) -> None:
    text = BROKER.replace("      - poll: {path: QUEUE}\n", "").replace("PORT", str(free_port()))
    (tmp_path / "tidegate.yaml").write_text(text.replace("URL", "http://127.0.0.1:9/"))
    command = [sys.executable, "-m", "gateway_core.cli", "run", "tidegate.yaml", "--workers", workers]
    env = {**os.environ, "TIDEGATE_ADMIN": "127.0.0.1:0", "TIDEGATE_DATA_DIR": str(tmp_path / "data")}
    with (tmp_path / "log").open("wb") as out:
        closed = lambda: os.close(0)  # noqa: E731
        process = subprocess.Popen(command, cwd=tmp_path, env=env, stderr=out, preexec_fn=closed)
    end = time.monotonic() + 30
    while not (tmp_path / "data/gateway.json").exists() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    process.terminate()
    assert process.wait(40) == 0, (tmp_path / "log").read_text()


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.spec("SAFE-07")
@pytest.mark.usefixtures("processes")
def test_workers_that_can_never_start_again_end_the_gateway(tmp_path: Path) -> None:
    gateway = start(tmp_path, BRIDGE, "http://127.0.0.1:1/")
    with gateway:
        gateway.wait_until(lambda: len(status(gateway)["processes"]) == 2, what="both workers")
        code = (tmp_path / "plugin/planted.py").read_text()
        (tmp_path / "plugin/planted.py").write_text("import os\nos._exit(5)\n" + code)
        for pid in descendants(gateway.pid):
            os.kill(pid, signal.SIGKILL)
        gone([gateway.pid], 240)
        assert "every worker ended 10 times in a row" in gateway.log()
        assert gateway.stop() == 3
