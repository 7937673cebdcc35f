"""A loop that hangs: a worker is replaced, a single process says where it is stuck, and both end at SIGTERM."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import httpx
import pytest
from gateway_testing import GatewayProcess, Subscriber

from tests import web
from tests.ledger import body_of, free_port, headers
from tests.planted import install
from tests.processes import descendants, gone

from .test_workers import both

pytestmark = pytest.mark.usefixtures("processes")

CONFIG = """
brokers:
  default:
    ingress:
      - http: {listen: "127.0.0.1:PORT"}
triggers:
  all:
    subscriber: URL
    filters: [FILTER]
"""
HANG = '''
import re, time
from pathlib import Path
from pydantic import RootModel
from gateway_core.contract.component import Component
from gateway_core.contract.hookspecs import hookimpl
from gateway_core.contract.interfaces import Filter

class Hang(RootModel[str]):
    """Hangs at events of the type `poison` while there is this file."""

def build(options, context):
    def looping(event):
        if event.attributes["type"] == "poison" and Path(options.root).exists():
            planted_loop(options.root)
        return True
    return Filter(looping)

def planted_loop(file):
    if file.endswith(".held"):
        re.match(r"(a+)+b", "a" * 64)  # holds Python's lock, for years
    while True:
        time.sleep(0.001)  # a loop without it hangs no more, and takes a core from other tests

@hookimpl
def gateway_filters():
    return [Component("hang", "A test's.", Hang, build)]
'''


def taken(pid: int) -> None:
    """Waits until the process has taken each SIGTERM: of two that wait, one is lost."""
    deadline = time.monotonic() + 30
    while any(int(line.split()[1], 16) >> (signal.SIGTERM - 1) & 1 for line in waiting_signals(pid)):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def waiting_signals(pid: int) -> list[str]:
    """The lines of `/proc/PID/status` with the masks of signals that wait."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return [line for line in lines if line.startswith(("SigPnd:", "ShdPnd:"))]


def config(url: str, file: Path) -> str:
    filter = f'{{hang: "{file}"}}'
    return CONFIG.replace("PORT", str(free_port())).replace("URL", url).replace("FILTER", filter)


def send(url: str, number: int, type: str = "t") -> int:
    """On a connection of its own: the workers share them."""
    own = {**headers(number), "ce-type": type}
    return web.post(url, content=body_of(number), headers=own, timeout=2, verify=False).status_code


def sent_in_spite(gateway: GatewayProcess, number: int) -> None:
    """Sends until it is accepted: half of all connections lead to a worker that hangs, while it does."""

    def once() -> bool:
        try:
            return send(gateway.ingress(), number) == 202
        except httpx.TransportError:
            return False

    gateway.wait_until(once, 60, "an event to be accepted")


@pytest.mark.spec("SAFE-05")
@pytest.mark.parametrize("name", ["poison", pytest.param("poison.held", marks=pytest.mark.full)])
def test_a_worker_that_hangs_is_replaced_and_nothing_is_lost(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    env = {**install(tmp_path, HANG), "TIDEGATE_WATCHDOG_S": "3"}
    with Subscriber() as s, GatewayProcess(config(s.url, file), tmp_path, env, "--workers", "2") as gateway:
        for number in range(20):
            assert send(gateway.ingress(), number) == 202
        gateway.wait_until(lambda: len(gateway.status()["processes"]) == 2)
        before = descendants(gateway.pid)
        file.touch()
        assert send(gateway.ingress(), 100, "poison") == 202
        gateway.wait_until(lambda: "killing it" in gateway.log(), 60, "the watchdog")
        assert "planted_loop" in gateway.log()  # the stack
        file.unlink()
        for number in range(20, 40):
            sent_in_spite(gateway, number)
        gateway.wait_until(lambda: len({r.headers["ce-id"] for r in s.requests}) == 41, 60, "all events")
        after = descendants(gateway.pid)
        assert len(after) == len(before) == 2
        assert len(before & after) == 1
        gateway.wait_until(lambda: both(gateway), 60, "both in the status")
        assert gateway.stop() == 0
        gone(after)


@pytest.mark.spec("SAFE-05")
@pytest.mark.parametrize("name", ["poison", pytest.param("poison.held", marks=pytest.mark.full)])
def test_a_single_process_says_where_it_hangs(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    env = {**install(tmp_path, HANG), "TIDEGATE_WATCHDOG_S": "2"}
    with Subscriber() as s, GatewayProcess(config(s.url, file), tmp_path, env) as gateway:
        file.touch()
        send(gateway.ingress(), 1, "poison")
        gateway.wait_until(lambda: "planted_loop" in gateway.log(), 60, "the watchdog")


@pytest.mark.spec("SAFE-05")
@pytest.mark.parametrize("signals", [1, 2])
def test_sigterm_works_while_the_loop_hangs(tmp_path: Path, signals: int) -> None:
    file = tmp_path / "poison"
    env = install(tmp_path, HANG)
    with Subscriber() as s, GatewayProcess(config(s.url, file), tmp_path, env) as gateway:
        file.touch()
        assert send(gateway.ingress(), 1, "poison") == 202
        with pytest.raises(httpx.TransportError):
            send(gateway.ingress(), 2)
        began = time.monotonic()
        if signals == 2:
            os.kill(gateway.pid, signal.SIGTERM)
            taken(gateway.pid)  # two that come at once are one
        assert gateway.stop() == 130
        assert time.monotonic() - began < (15 if signals == 2 else 60)
        if signals == 1:
            assert "planted_loop" in gateway.log()
        file.unlink()
        gateway.start()
        gateway.wait_until(lambda: "1" in {r.headers["ce-id"] for r in s.requests}, 60, "the event that was accepted")


@pytest.mark.spec("SAFE-05")
@pytest.mark.parametrize("flags", [(), ("--workers", "2")])
def test_a_process_that_was_stopped_is_no_false_alarm(tmp_path: Path, flags: tuple[str, ...]) -> None:
    env = {"TIDEGATE_WATCHDOG_S": "2"}
    text = CONFIG.partition("    filters")[0]
    with Subscriber() as s:
        text = text.replace("PORT", str(free_port())).replace("URL", s.url)
        with GatewayProcess(text, tmp_path, env, *flags) as gateway:
            if flags:
                gateway.wait_until(lambda: len(gateway.status()["processes"]) == 2)
            pids = descendants(gateway.pid) or {gateway.pid}
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            time.sleep(6)
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
            sent_in_spite(gateway, 1)
            assert "has not turned" not in gateway.log()
            assert (descendants(gateway.pid) or {gateway.pid}) == pids
            assert gateway.stop() == 0


@pytest.mark.spec("SAFE-05")
def test_workers_end_with_their_supervisor_even_one_that_hangs(tmp_path: Path) -> None:
    file = tmp_path / "poison.held"
    with (
        Subscriber() as s,
        GatewayProcess(config(s.url, file), tmp_path, install(tmp_path, HANG), "--workers", "2") as g,
    ):
        file.touch()
        assert send(g.ingress(), 1, "poison") == 202
        g.wait_until(lambda: len(descendants(g.pid)) == 2)
        workers = descendants(g.pid)
        g.kill()
        gone(workers)
