"""With several workers, `tidegate delayed` shows and changes what waits in all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from gateway_testing import GatewayProcess, Subscriber

from tests import web
from tests.ledger import free_port

CONFIG = """
brokers:
  default:
    ingress:
      - http: {listen: "127.0.0.1:PORT"}
triggers:
  later: {subscriber: "URL", delay: PT1H}
"""


@pytest.mark.spec("DELAY-09")
@pytest.mark.usefixtures("processes")
def test_what_waits_in_two_workers_is_listed_cancelled_and_delivered(tmp_path: Path) -> None:
    config = CONFIG.replace("PORT", str(free_port()))
    with (
        Subscriber() as subscriber,
        GatewayProcess(config.replace("URL", subscriber.url), tmp_path, None, "--workers", "2") as gateway,
    ):
        sent, folder = 0, gateway.data_dir / "log/default"

        def both() -> bool:
            nonlocal sent
            headers = {"ce-specversion": "1.0", "ce-id": str(sent), "ce-source": "/s", "ce-type": "t"}
            with web.client(verify=False) as client:  # a new connection: the system chooses the worker
                assert client.post(gateway.ingress(), headers=headers, content=b"").status_code == 202
            sent += 1
            return len(list(folder.glob("delayed-*.db"))) == 2

        gateway.wait_until(both, what="both workers to have events that wait")

        def listed() -> Any:
            return gateway.admin("/api/v1/triggers/later/delayed?limit=1000").json()

        def change(word: str, id: int) -> int:
            url = f"{gateway.admin_url}/api/v1/triggers/later/delayed/{word}"
            body = {"id": str(id), "source": "/s"}
            answer = httpx.post(url, json=body, headers=gateway.admin_headers, timeout=20, verify=False)
            assert answer.status_code == 200, answer.text
            count: int = answer.json()["count"]
            return count

        gateway.wait_until(lambda: listed()["count"] == sent, what="all to wait")
        assert {one["id"] for one in listed()["events"]} == {str(n) for n in range(sent)}
        assert [change("cancel", n) for n in range(0, sent, 2)] == [1] * len(range(0, sent, 2))
        assert change("cancel", 0) == 0
        assert [change("now", n) for n in range(1, sent, 2)] == [1] * len(range(1, sent, 2))
        gateway.wait_until(lambda: listed()["count"] == 0, what="none to wait")
        gateway.wait_until(lambda: len(subscriber.requests) >= sent // 2, what="the deliveries")
        assert {int(r.headers["ce-id"]) for r in subscriber.requests} == set(range(1, sent, 2))
