"""Events are delivered with and without sniffio. It comes with many libraries; where it is installed, anyio asks it for
the event loop."""

from __future__ import annotations

import os
from pathlib import Path

import httpx
import pytest
from gateway_testing import GatewayProcess, Subscriber

from tests.ledger import body_of, free_port, headers

pytestmark = pytest.mark.usefixtures("processes")

CONFIG = """
brokers:
  default:
    ingress:
      - http: {listen: "127.0.0.1:PORT"}
triggers:
  all: {subscriber: URL}
"""
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
        text = CONFIG.replace("PORT", str(free_port())).replace("URL", subscriber.url)
        with GatewayProcess(text, tmp_path, {"PYTHONPATH": path}, "--workers", str(workers)) as gateway:
            for number in range(EVENTS):
                httpx.post(gateway.ingress(), content=body_of(number), headers=headers(number)).raise_for_status()

            def counts() -> tuple[int, int]:
                trigger = gateway.trigger("all")
                return trigger["delivered"], trigger["dead_lettered"]

            gateway.wait_until(lambda: sum(counts()) >= EVENTS, what="an end for each event")
            assert counts() == (EVENTS, 0)
        assert len(subscriber.requests) == EVENTS
