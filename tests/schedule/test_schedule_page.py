"""The page on schedules, run, with kills of the gateway."""

from __future__ import annotations

import json
import time
from collections import Counter
from datetime import datetime
from pathlib import Path

import pytest
from gateway_testing import GatewayProcess, Subscriber

from tests.command_line import tidegate
from tests.e2e.test_together import page_config

pytestmark = pytest.mark.usefixtures("processes")


@pytest.mark.timeout(200)
@pytest.mark.spec("SCHED-04", "SCHED-05")
def test_the_schedule_of_the_page_makes_each_run_over_kills(tmp_path: Path) -> None:
    with Subscriber() as subscriber:
        config = page_config("schedule-events.md", **{"http://127.0.0.1:9000/reports": subscriber.url})
        config = config.replace("every: 2", "every: 1\n          missed: all")
        with GatewayProcess(config, tmp_path) as gateway:
            checked = tidegate("check", gateway.config)
            assert checked.returncode == 0, checked.stdout
            assert "schedule daily-report runs at" in checked.stdout
            for count in (2, 4):
                subscriber.wait_for(count)
                gateway.kill()
                time.sleep(1.5)  # runs are missed
                gateway.start()
            subscriber.wait_for(9)
            (source,) = [
                s for s in gateway.status()["brokers"][0]["sources"] if s["address"] == "schedule:daily-report"
            ]
            assert len(source["next"]) == 10, json.dumps(source)
    seen = Counter(request.headers["ce-id"] for request in subscriber.requests)
    planned = sorted(datetime.fromisoformat(id_.partition("/")[2]).timestamp() for id_ in seen)
    assert planned == [planned[0] + n for n in range(len(planned))], "each second once: none is missing"
    assert {request.headers["ce-source"] for request in subscriber.requests} == {"/schedules/heartbeat"}
