"""The pages on batches and on subscribers that are down, run: the gateway is killed, and every event arrives."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
import pytest
from gateway_testing import GatewayProcess, Received, Subscriber

from tests.command_line import tidegate
from tests.ledger import dead_letters, free_port

pytestmark = pytest.mark.usefixtures("processes")

HOWTO = Path(__file__).parents[2] / "docs/howto"


def page_config(name: str, **replaced: str) -> str:
    """The first config of a page, with other addresses."""
    text = (HOWTO / name).read_text().partition("```yaml\n")[2].partition("```")[0]
    for old, new in {"127.0.0.1:8080": f"127.0.0.1:{free_port()}", **replaced}.items():
        assert old in text
        text = text.replace(old, new)
    return text


def send(gateway: GatewayProcess, first: int, end: int) -> None:
    batch = [
        {"specversion": "1.0", "id": str(n), "source": "/t", "type": "order.placed", "data": {"n": n}}
        for n in range(first, end)
    ]
    headers = {"content-type": "application/cloudevents-batch+json"}
    response = httpx.post(gateway.ingress(), content=json.dumps(batch), headers=headers, timeout=60)
    assert response.status_code == 202


@pytest.mark.timeout(200)
@pytest.mark.spec("BATCH-06", "BATCH-02")
def test_batches_of_the_page_lose_nothing_over_kills(tmp_path: Path) -> None:
    taken: Counter[int] = Counter()
    lock = threading.Lock()

    def decide(request: Received) -> int:
        numbers = [one["data"]["n"] for one in json.loads(request.body)]
        if any(n % 500 == 99 for n in numbers):
            return 422
        with lock:
            taken.update(numbers)
        return 204

    with Subscriber(decide=decide) as subscriber:
        config = page_config("deliver-in-batches.md", **{"http://127.0.0.1:9000/orders": subscriber.url})
        with GatewayProcess(config, tmp_path) as gateway:
            for round_ in range(3):
                send(gateway, round_ * 1000, round_ * 1000 + 1000)
                goal = round_ * 1000 + 300
                gateway.wait_until(lambda goal=goal: len(taken) >= goal, 60, f"{goal} deliveries")
                gateway.kill()
                gateway.start()
            poison = {n for n in range(3000) if n % 500 == 99}
            gateway.wait_until(lambda: len(taken) == 3000 - len(poison), 60, "the other deliveries")

            letters = tmp_path / "data/dead-letter"
            gateway.wait_until(lambda: set(dead_letters(letters)) == poison, 60, "the dead letters")
            gateway.wait_until(lambda: gateway.status()["triggers"][0]["lag"] == 0, 60, "the cursor")
    assert set(taken) == set(range(3000)) - poison
    assert sum(len(json.loads(r.body)) for r in subscriber.requests) > 5 * len(subscriber.requests)


@pytest.mark.timeout(200)
@pytest.mark.spec("HOLD-05", "HOLD-01")
def test_what_is_held_survives_kills_and_is_delivered_when_the_subscriber_is_back(tmp_path: Path) -> None:
    port = free_port()
    config = page_config("hold-while-down.md", **{"127.0.0.1:9000": f"127.0.0.1:{port}"})
    with GatewayProcess(config, tmp_path) as gateway:
        for round_ in range(2):
            send(gateway, round_ * 500, round_ * 500 + 500)
            gateway.wait_until(
                lambda: gateway.status()["triggers"][0]["condition"] == "HeldWhileDown", 60, "the condition"
            )
            gateway.kill()
            gateway.start()
        with Subscriber(port=port) as subscriber:
            gateway.wait_until(lambda: gateway.status()["triggers"][0]["delivered"] == 1000, 60, "the deliveries")
            status = gateway.status()["triggers"][0]
            assert (status["condition"], status["dead_lettered"], status["lag"]) == ("Delivering", 0, 0)
    assert Counter(r.headers["ce-id"] for r in subscriber.requests) == {str(n): 1 for n in range(1000)}


@pytest.mark.timeout(300)
@pytest.mark.spec("DELAY-01", "DELAY-02", "DELAY-05")
def test_delayed_events_of_the_page_survive_kills_and_are_never_early(tmp_path: Path) -> None:
    at: dict[str, float] = {}
    lock = threading.Lock()

    def decide(request: Received) -> int:
        with lock:
            at.setdefault(request.headers["ce-id"], time.time())
        return 204

    with Subscriber(decide=decide) as subscriber:
        config = page_config(
            "delay-events.md", **{"http://127.0.0.1:9000/remind": subscriber.url, "delay: 10m": "delay: 4s"}
        )
        sent: dict[str, float] = {}
        with GatewayProcess(config, tmp_path) as gateway:
            for round_ in range(3):
                first = round_ * 400
                sent |= {str(n): time.time() for n in range(first, first + 400)}
                send(gateway, first, first + 400)
                gateway.kill()
                gateway.start()
            send(gateway, 5000, 5001)
            hour = {"ce-id": "6000", "ce-source": "/t", "ce-type": "order.placed", "ce-specversion": "1.0"}
            for id_ in ("6000", "6001"):
                response = httpx.post(gateway.ingress(), headers={**hour, "ce-id": id_, "ce-deliverat": "PT1H"})
                assert response.status_code == 202
            gateway.wait_until(lambda: len(at) == 1201, 60, "the deliveries")
            gateway.wait_until(lambda: gateway.status()["triggers"][0]["delayed"] == 2, 60, "the count")
            data = ("--data-dir", gateway.data_dir)
            listed = tidegate("delayed", "list", "reminders", "--json", *data)
            assert [one["id"] for one in json.loads(listed.stdout)["events"]] == ["6000", "6001"], listed
            assert "waits until it is due" in tidegate("why", "6000", *data).stdout
            assert tidegate("delayed", "cancel", "reminders", "6000", "--source", "/t", *data).returncode == 0
            assert tidegate("delayed", "cancel", "reminders", "6000", "--source", "/t", *data).returncode == 1
            assert tidegate("delayed", "now", "reminders", "6001", "--source", "/t", *data).returncode == 0
            gateway.wait_until(lambda: "6001" in at, 60, "the event that was hurried")
            gateway.kill()
            gateway.start()
            gateway.wait_until(lambda: gateway.status()["triggers"][0]["delayed"] == 0, 60, "an empty file")
    assert set(at) == {*sent, "5000", "6001"}
    assert all(at[id_] >= began + 4 for id_, began in sent.items()), "early"
