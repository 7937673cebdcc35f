"""A stop that reaches every process of a gateway, or comes twice, still drains. systemd signals all processes of a
unit, `timeout` its child and then the group of it."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from gateway_testing import GatewayProcess, Subscriber

from tests.processes import descendants, gone

from .one_trigger import config_for, numbers, send
from .test_workers import both

pytestmark = pytest.mark.usefixtures("processes")

EVENTS = 8
# as a terminal starts it: under nohup, which may run these tests, SIGHUP has no effect
_ITS_SIGHUP = (
    "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
)
IN_A_TERMINAL = (sys.executable, "-P", "-c", _ITS_SIGHUP)


def slow(received: object) -> str:
    time.sleep(1.5)
    return "script"


@pytest.mark.spec("SAFE-07")
@pytest.mark.parametrize(("workers", "all_processes"), [(1, False), (2, False), (2, True)])
def test_what_is_under_way_is_finished(tmp_path: Path, workers: int, all_processes: bool) -> None:
    with Subscriber(decide=slow) as subscriber:
        with GatewayProcess(config_for(subscriber), tmp_path, None, "--workers", str(workers)) as gateway:
            send(gateway, range(EVENTS))
            subscriber.wait_for(EVENTS)
            if all_processes:
                for worker in descendants(gateway.pid):
                    os.kill(worker, signal.SIGTERM)
                time.sleep(0.3)  # so that what their supervisor sends is another signal
            else:
                os.kill(gateway.pid, signal.SIGINT)  # the system may take two of one kind for one
            assert gateway.stop() == 0
            gateway.start()
            new = range(EVENTS, 2 * EVENTS)
            send(gateway, new)
            # what had not been settled before would be sent again before these
            gateway.wait_until(lambda: set(new) <= numbers(subscriber), what="the new events")
        assert len(subscriber.requests) == 2 * EVENTS, "what was under way was sent again"


@pytest.mark.spec("SAFE-07")
@pytest.mark.parametrize("workers", [1, 2])
def test_where_sighup_reloads_nothing_it_is_a_stop(tmp_path: Path, workers: int) -> None:
    with Subscriber(decide=slow) as subscriber:
        gateway = GatewayProcess(config_for(subscriber), tmp_path, None, "--workers", str(workers), "--reload", "off")
        gateway.launcher = IN_A_TERMINAL
        with gateway:
            send(gateway, range(EVENTS))
            subscriber.wait_for(EVENTS)
            pids = {gateway.pid, *descendants(gateway.pid)}
            for pid in pids:  # as a terminal does that is closed
                os.kill(pid, signal.SIGHUP)
            gone(pids)
            assert gateway.stop() == 0, "the code with which it had ended"
            gateway.start()
            new = range(EVENTS, 2 * EVENTS)
            send(gateway, new)
            gateway.wait_until(lambda: set(new) <= numbers(subscriber), what="the new events")
        assert len(subscriber.requests) == 2 * EVENTS, "what was under way was sent again"


@pytest.mark.spec("SAFE-07")
def test_a_terminal_that_is_closed_ends_no_worker(tmp_path: Path) -> None:
    with Subscriber() as subscriber:
        gateway = GatewayProcess(config_for(subscriber), tmp_path, None, "--workers", "2")
        gateway.launcher = IN_A_TERMINAL
        with gateway:
            gateway.wait_until(lambda: both(gateway), what="two workers")
            workers = descendants(gateway.pid)
            for pid in (gateway.pid, *workers):
                os.kill(pid, signal.SIGHUP)
            time.sleep(1)  # in which a worker that ended would be replaced
            send(gateway, range(EVENTS))
            gateway.wait_until(lambda: numbers(subscriber) == set(range(EVENTS)), what="all events")
            assert descendants(gateway.pid) == workers
            assert "ended" not in gateway.log()
