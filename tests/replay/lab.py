"""A gateway with two triggers and a subscriber, for the tests of replays."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from gateway_testing import Subscriber
from gateway_testing.process import GatewayProcess

from gateway_core.contract.moments import written
from tests import web
from tests.command_line import tidegate
from tests.explain.test_why import why

CONFIG = """
brokers:
  default:
    ingress: [http: {{listen: "127.0.0.1:{port}"}}]
    channel: {{{kind}: {{{channel}}}}}
    delivery: {{retry: 0}}
triggers:
  one: {{subscriber: "{url}one", filter: {{type: t.a}}{one}}}
  two: {{subscriber: "{url}two"}}
"""


def config(subscriber: Subscriber, channel: str = "", one: str = "", port: int = 0, kind: str = "log") -> str:
    return CONFIG.format(url=subscriber.url, kind=kind, channel=channel, one=one and f", {one}", port=port)


def send(gateway: GatewayProcess, ids: Sequence[str], type_: str = "t.a", **more: str) -> None:
    """In batches, in this order."""
    for first in range(0, len(ids), 500):
        batch = [
            {"specversion": "1.0", "id": id_, "source": "/s", "type": type_, **more} for id_ in ids[first : first + 500]
        ]
        headers = {"content-type": "application/cloudevents-batch+json"}
        answer = web.post(gateway.ingress(), content=json.dumps(batch).encode(), headers=headers, verify=False)
        assert answer.status_code == 202


def send_to_all(gateway: GatewayProcess, ids: Sequence[str], workers: int = 2) -> None:
    """Each over a connection of its own, so that any worker may take it."""
    gateway.wait_until(lambda: len(gateway.status()["processes"]) == workers, what="all workers")
    for id_ in ids:
        send(gateway, [id_])


def shards(gateway: GatewayProcess, ids: Sequence[str]) -> set[str]:
    """Which shards have these events."""
    return {found["place"].partition("/")[0] for id_ in ids for found in why(gateway, id_)["events"]}


def got(subscriber: Subscriber, path: str) -> Counter[str]:
    return Counter(r.headers["ce-id"] for r in subscriber.requests if r.path == f"/{path}")


def ids(count: int, first: int = 0) -> list[str]:
    return [f"{n}" for n in range(first, first + count)]


def run(gateway: GatewayProcess, *words: object, code: int = 0) -> Any:
    """What a command prints as JSON."""
    ran = tidegate(*words, "--json", "--data-dir", gateway.data_dir)
    assert ran.returncode == code, ran.stdout + ran.stderr
    return json.loads(ran.stdout)


def refused(gateway: GatewayProcess, *words: object) -> str:
    ran = tidegate(*words, "--data-dir", gateway.data_dir)
    assert ran.returncode != 0, ran.stdout
    return ran.stdout + ran.stderr


def now(gateway: GatewayProcess) -> str:
    """The time, later than all that was accepted."""
    time.sleep(0.002)
    found = written(time.time_ns())
    time.sleep(0.002)
    return found


def refused_or_empty(gateway: GatewayProcess, *words: object) -> bool:
    """Whether a replay is refused, because events are gone."""
    return tidegate(*words, "--dry-run", "--data-dir", gateway.data_dir).returncode != 0
