"""What a trigger had in memory when a reload changed it is given back."""

from __future__ import annotations

from pathlib import Path

import pytest
from gateway_testing import GatewayProcess, Subscriber

from tests import web
from tests.ledger import free_port

pytestmark = pytest.mark.usefixtures("processes")

CONFIG = """
brokers:
  default:
    ingress:
      - http: {listen: "127.0.0.1:PORT"}
triggers:
  late:
    subscriber: URL
    delivery: {retry: 1000, backoff_delay_s: 3600, backoff_max_s: MOST}
"""
EVENTS, SIZE, RELOADS = 100, 200_000, 4


def resident(gateway: GatewayProcess) -> int:
    """Bytes of memory that the gateway uses."""
    return int(gateway.status()["processes"][0]["resident_bytes"])


@pytest.mark.spec("SAFE-40")
def test_events_that_wait_take_their_memory_once_however_often_a_trigger_is_changed(tmp_path: Path) -> None:
    with Subscriber(default=503) as late:
        text = CONFIG.replace("PORT", str(free_port())).replace("URL", late.url)
        with GatewayProcess(text.replace("MOST", "3600"), tmp_path) as gateway, web.client() as sender:
            for n in range(EVENTS):
                attributes = {"ce-specversion": "1.0", "ce-id": str(n), "ce-source": "/s", "ce-type": "t"}
                sender.post(gateway.ingress(), content=bytes(SIZE), headers=attributes).raise_for_status()

            def all_wait() -> bool:
                return bool(gateway.trigger("late")["waiting"] == EVENTS)

            gateway.wait_until(all_wait, what="all events in memory")
            before = resident(gateway)
            for reload in range(RELOADS):
                gateway.config.write_text(text.replace("MOST", str(3601 + reload)))

                def reloaded(generation: int = reload + 2) -> bool:
                    return bool(gateway.status()["config"]["generation"] == generation)

                gateway.wait_until(reloaded, what="a reload")
                gateway.wait_until(all_wait, what="all events in memory again")
            assert resident(gateway) - before < RELOADS * EVENTS * SIZE / 2
