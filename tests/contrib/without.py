"""A gateway of an installation that lacks plugins, in a process of its own: `check`, `run`, one event, `send`.

It runs in a folder made by `test_deletion.py`: `probe`, the plugin here, is one of its entry points.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sys
import threading
from asyncio import AbstractEventLoop, get_running_loop
from collections.abc import Callable
from typing import Any

from gateway_core.contract.component import Component, Config, Transport
from gateway_core.contract.event import Event
from gateway_core.contract.hookspecs import hookimpl
from gateway_core.contract.interfaces import Accepted, Intake
from gateway_core.contract.outcome import DELIVERED, Outcome
from gateway_core.contract.services import GatewayView, RunningService, Service

LIMIT_S = 60.0


class Probe(RunningService):
    """A source, a sink and a service: what is put in at one end comes out at the other."""

    address = "probe:"
    gateway: GatewayView
    intake: Intake
    loop: AbstractEventLoop

    def __init__(self) -> None:
        self.came: list[str] = []
        self.changed_ = threading.Condition()
        self.up = False

    async def start(self, *given: Any) -> None:
        self.loop = get_running_loop()
        if len(given) == 2:
            self.intake = given[0]

    def reached(self, wanted: Any) -> None:
        with self.changed_:
            self.up = True
            self.changed_.notify_all()

    def send(self, event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
        with self.changed_:
            self.came.append(event.attributes["id"])
            self.changed_.notify_all()
        done(DELIVERED)

    def put(self, id: str) -> None:
        event = Event({"specversion": "1.0", "id": id, "source": "/s", "type": "t"}, None)
        answered: Accepted = lambda error: None  # noqa: E731
        self.loop.call_soon_threadsafe(self.intake.accept, [event], answered)

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        with self.changed_:
            if not self.changed_.wait_for(condition, LIMIT_S):
                raise TimeoutError(f"no {what} within {LIMIT_S:g} s")


PROBE = Probe()


def _service(gateway: GatewayView) -> RunningService:
    PROBE.gateway = gateway
    return PROBE


@hookimpl
def gateway_transports() -> list[Transport]:
    def given(options: Any, context: Any) -> Any:
        return PROBE

    return [
        Transport(
            "probe", Component("probe", "A test's.", Config, given), Component("probe", "A test's.", Config, given)
        )
    ]


@hookimpl
def gateway_services() -> list[Service]:
    return [Service("probe", "A test's.", _service)]


def command(*args: str) -> dict[str, Any]:
    """Runs a command of `tidegate` in this process: its exit code, and what it wrote."""
    from gateway_core.cli import main

    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            main(args)
        except SystemExit as e:
            return {"code": e.code, "said": out.getvalue()}
    return {"code": None, "said": out.getvalue()}


def _drive(sends: bool, report: dict[str, Any]) -> None:
    """Puts an event in, sends another one, and ends the gateway."""
    try:
        PROBE.wait(lambda: PROBE.up, "start")
        PROBE.put("1")
        PROBE.wait(lambda: "1" in PROBE.came, "event")
        if sends:
            url = next(at for at in PROBE.gateway.ingress["default"] if at.startswith("http"))
            report["send"] = command("send", url, "--type", "t", "--id", "2")
            PROBE.wait(lambda: "2" in PROBE.came, "event that was sent")
    except Exception as e:
        report["fault"] = f"{type(e).__name__}: {e}"
    finally:
        report["came"] = sorted(set(PROBE.came))
        os.kill(os.getpid(), signal.SIGTERM)


def run(checks: bool, sends: bool) -> None:
    """Prints a report in JSON."""
    report: dict[str, Any] = {}
    if checks:
        report["check"] = command("check", "tidegate.yaml")
    driver = threading.Thread(target=_drive, args=(sends, report))
    driver.start()
    report["run"] = command("run", "tidegate.yaml", "--data-dir", "data")
    with PROBE.changed_:
        PROBE.up = True  # if it never was
        PROBE.changed_.notify_all()
    driver.join()
    print(json.dumps(report))


if __name__ == "__main__":
    import probe  # type: ignore[import-not-found]  # this module, by the name that the registry knows

    probe.run(*json.loads(sys.argv[1]))
