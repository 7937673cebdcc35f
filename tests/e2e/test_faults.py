"""What goes wrong around a running gateway: nothing that got a 2xx is lost, and little comes twice."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from gateway_testing import GatewayProcess, Received, Subscriber

from tests import web

CONFIG = """
brokers:
  default:
    ingress:
      - http: {listen: "127.0.0.1:0", path: /in}
triggers:
  all:
    subscriber: URL
"""


def post(gateway: GatewayProcess, *ids: str) -> None:
    for id in ids:
        headers = {"ce-specversion": "1.0", "ce-id": id, "ce-source": "/s", "ce-type": "t"}
        assert web.post(gateway.ingress(), headers=headers, verify=False).status_code == 202


@pytest.mark.spec("DP-18")
@pytest.mark.usefixtures("processes")
def test_a_stop_lets_a_letter_arrive_that_is_under_way(tmp_path: Path) -> None:
    def slowly(received: Received) -> int:
        time.sleep(0.5)
        return 202

    with Subscriber(default=400) as s, Subscriber(decide=slowly) as letters:
        text = CONFIG.replace("URL", s.url) + f"    dead_letter: {letters.url}\n"
        with GatewayProcess(text, tmp_path) as g:
            post(g, "1")
            letters.wait_for(1)
            assert g.stop() == 0
            g.start()
            assert g.trigger("all")["lag"] == 0
            assert len(letters.requests) == 1
            g.stop()
