"""Events are delivered with and without sniffio. It comes with many libraries; where it is installed, anyio asks it for
the event loop."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from gateway_testing import GatewayProcess, Subscriber

from .one_trigger import config_for, send

pytestmark = pytest.mark.usefixtures("processes")

EVENTS = 20


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.full)])
@pytest.mark.parametrize("installed", [True, False], ids=["sniffio", "none"])
def test_events_are_delivered(tmp_path: Path, installed: bool, workers: int) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    if not installed:
        (hidden / "sniffio.py").write_text("raise ModuleNotFoundError(__name__)\n")
    path = os.pathsep.join(filter(None, (str(hidden), os.environ.get("PYTHONPATH"))))
    with Subscriber() as subscriber:
        with GatewayProcess(
            config_for(subscriber), tmp_path, {"PYTHONPATH": path}, "--workers", str(workers)
        ) as gateway:
            send(gateway, range(EVENTS))

            def counts() -> tuple[int, int]:
                trigger = gateway.trigger("all")
                return trigger["delivered"], trigger["dead_lettered"]

            gateway.wait_until(lambda: sum(counts()) >= EVENTS, what="an end for each event")
            assert counts() == (EVENTS, 0)
        assert len(subscriber.requests) == EVENTS
