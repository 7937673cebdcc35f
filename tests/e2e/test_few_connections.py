"""Fewer connections than attempts that may be under way: nothing uses up its time in a queue."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from gateway_testing import GatewayProcess, Received, Subscriber

from tests import web
from tests.ledger import dead_letters, free_port

CONFIG = """
brokers:
  default:
    ingress:
      - http: {listen: "127.0.0.1:PORT"}
triggers:
  slow:
    subscriber: {http: {url: URL, max_connections: 1}}
    delivery: {retry: 0, timeout_s: 1, max_in_flight: 64}
"""


@pytest.mark.spec("SAFE-35")
@pytest.mark.usefixtures("processes")
def test_events_that_wait_for_the_one_connection_are_not_timed_out(tmp_path: Path) -> None:
    def slowly(received: Received) -> int:
        time.sleep(0.25)
        return 202

    with Subscriber(decide=slowly) as s:
        gateway = GatewayProcess(CONFIG.replace("PORT", str(free_port())).replace("URL", s.url), tmp_path)
        gateway.start()
        batch = [{"specversion": "1.0", "id": str(n), "source": "/s", "type": "t"} for n in range(10)]
        headers = {"content-type": "application/cloudevents-batch+json"}
        assert web.post(gateway.ingress(), content=json.dumps(batch), headers=headers, verify=False).status_code == 202
        gateway.wait_until(gateway.drained, 60, "the deliveries")
        assert gateway.trigger("slow")["attempts"] == len(s.requests) == 10
        assert not dead_letters(gateway.data_dir / "dead-letter")
        assert gateway.stop() == 0
