"""A trigger to a cluster that is down is not ready, before any attempt has timed out."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from gateway_testing.process import GatewayProcess

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.spec("SAFE-94")]

CONFIG = """
brokers: {{default: {{ingress: [http: {{listen: "127.0.0.1:0"}}]}}}}
triggers:
  away: {{subscriber: {{kafka: {{bootstrap: "127.0.0.1:{port}", topic: t}}}}}}
bridges:
  over: {{source: {{http: {{listen: "127.0.0.1:0"}}}}, sink: {{kafka: {{bootstrap: "127.0.0.1:{port}", topic: t}}}}}}
"""


def test_a_cluster_that_is_down_at_the_start_is_said_at_once(tmp_path: Path) -> None:
    with socket.socket() as closed:  # bound, and nobody listens
        closed.bind(("127.0.0.1", 0))
        with GatewayProcess(CONFIG.format(port=closed.getsockname()[1]), tmp_path) as gateway:
            status = gateway.status()
            trigger, bridge = status["triggers"][0], status["bridges"][0]
            assert (trigger["ready"], trigger["condition"], trigger["attempts"]) == (False, "SubscriberFails", 0)
            assert (bridge["ready"], bridge["condition"]) == (False, "SinkFails")
            assert "127.0.0.1" in trigger["reason"]
            assert "127.0.0.1" in bridge["reason"]
