"""Several workers of one gateway keep a quota together."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from gateway_testing import GatewayProcess

from tests import web
from tests.ledger import free_port
from tests.metrics.scrape import scrape

RATE = 0.02
BURST = 20
SENT = 100

CONFIG = """
brokers:
  default:
    ingress:
      - http:
          listen: "127.0.0.1:{port}"
          quota: {{total: {{requests_per_s: {rate}, burst_s: {burst_s}}}}}
triggers: {{t: {{subscriber: {{file: {{path: out.jsonl}}}}}}}}
"""


@pytest.mark.spec("LI-02", "LI-06")
@pytest.mark.usefixtures("processes")
def test_two_workers_let_no_more_in_than_one(tmp_path: Path) -> None:
    text = CONFIG.format(port=free_port(), rate=RATE, burst_s=BURST / RATE)
    headers = {"ce-specversion": "1.0", "ce-source": "/s", "ce-type": "t"}
    with GatewayProcess(text, tmp_path, None, "--workers", "2") as gateway:
        url, began = gateway.ingress(), time.monotonic()

        def post(number: int) -> int:
            """On a connection of its own: the kernel gives it to a worker."""
            return web.post(url, headers={**headers, "ce-id": str(number)}, verify=False).status_code

        answers = [post(number) for number in range(SENT)]
        assert set(answers) == {202, 429}
        # that one of them gets no connection is next to impossible; then only its share would be missing
        assert BURST / 2 <= answers.count(202) <= BURST + 2 + RATE * (time.monotonic() - began)
        refused = SENT - answers.count(202)
        gateway.wait_until(lambda: scrape(gateway)("tidegate_http_denied_total", status="429") == refused, 60, "counts")
