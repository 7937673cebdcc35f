"""A broker that stores events with the same key once: what its senders, its operator and its subscribers see."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import threading
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from gateway_inspect.cli.why import as_lines
from gateway_log.reader import LogReader
from gateway_testing import GatewayProcess, Subscriber

from tests import web
from tests.command_line import tidegate
from tests.ledger import free_port

pytestmark = pytest.mark.usefixtures("processes")

CONFIG = """
brokers:
  default:
    ingress:
      - http: {listen: "127.0.0.1:PORT"}
    deduplicate: {MORE}
triggers:
  subscriber:
    subscriber: URL
"""
WEEK_S = 7 * 86_400.0
BATCH = "application/cloudevents-batch+json"


def event(id: object, data: object = 1) -> dict[str, object]:
    return {"specversion": "1.0", "id": str(id), "source": "/s", "type": "t", "data": data}


def post(gateway: GatewayProcess, *events: dict[str, object]) -> httpx.Response:
    return web.post(gateway.ingress(), headers={"content-type": BATCH}, content=json.dumps(events).encode())


@pytest.mark.spec("ONCE-01", "ONCE-02", "ONCE-06", "ONCE-13")
def test_what_senders_and_operators_see_of_a_duplicate(tmp_path: Path) -> None:
    with Subscriber() as s:
        text = CONFIG.replace("PORT", "0").replace("MORE", "window: 7d, on_conflict: refuse").replace("URL", s.url)
        with GatewayProcess(text, tmp_path, None, "--metrics") as g:
            answers = [
                post(g, event(1), event(2)),
                post(g, event(2)),
                post(g, event(1), event(3), event(3), event(2)),
                post(g, event(4), event(1, "other")),
                post(g, event(4)),
            ]
            assert [a.status_code for a in answers] == [202, 202, 202, 409, 202]
            assert [a.headers.get("tidegate-duplicate") for a in answers] == [None, "2", "1, 3, 2", None, None]
            problem = answers[3].json()
            assert (problem["status"], problem["title"]) == (409, "Conflicting duplicate")
            assert "position 1" in problem["detail"]
            g.wait_until(g.drained, 30, "the deliveries")
            assert sorted(r.headers["ce-id"] for r in s.requests) == ["1", "2", "3", "4"]
            broker = g.status()["brokers"][0]
            assert (broker["accepted"], broker["duplicates"], broker["conflicts"]) == (4, 4, 1)
            told = g.admin("/api/v1/events?id=1").json()
            assert [(d["place"], d["differs"]) for d in told["duplicates"]] == [("0/1", False), ("0/1", True)]
            lines = "\n".join(as_lines(told))
            assert (
                lines.count("and was not stored: the first with its key is in the channel of broker default at 0/1")
                == 2
            )
            explained = [
                tidegate("explain", "-", "--data-dir", g.data_dir, text=json.dumps(asked)).stdout
                for asked in (event(2), event(2, "other"), event(4), event(5))
            ]
            said = "a duplicate, not stored again by broker default: the first with its key is at 0/"
            assert f"{said}2\n" in explained[0]
            assert f"{said}2, with other content\n" in explained[1]
            assert f"{said}4\n" in explained[2]
            assert "duplicate" not in explained[3]
            assert g.status()["brokers"][0]["duplicates"] == 4
            assert (broker["deduplicate_window_s"], broker["keys"]) == (WEEK_S, 4)
            assert "DUPLICATES  CONFLICTS  KEYS" in tidegate("status", "--data-dir", g.data_dir).stdout
            metrics = g.admin("/metrics").text
            assert 'tidegate_broker_events_duplicate_total{broker="default"} 4' in metrics
            assert 'tidegate_broker_duplicate_conflicts_total{broker="default"} 1' in metrics
            assert f'tidegate_broker_deduplicate_window_seconds{{broker="default"}} {WEEK_S}' in metrics
            assert 'tidegate_broker_keys{broker="default"} 4' in metrics


@pytest.mark.spec("ONCE-01")
def test_a_dead_letter_can_be_replayed_and_none_is_lost_as_a_duplicate(tmp_path: Path) -> None:
    with Subscriber(default=400) as s:
        text = CONFIG.replace("PORT", "0").replace("MORE", "window: 7d").replace("URL", s.url)
        with GatewayProcess(text, tmp_path) as g:
            post(g, event(1))
            g.wait_until(lambda: g.trigger("subscriber")["dead_lettered"] == 1, 30, "the dead letter")
            s.answer = 202
            stores = ("--data-dir", g.data_dir, "--config", g.config)
            ran = tidegate("dlq", "replay", "--all", "--all-triggers", "--yes", *stores)
            assert (ran.returncode, ran.stdout) == (1, "0 replayed, 1 left\n")
            assert "its broker has this event already, at position 1" in ran.stderr
            asked = {"all": True, "all_triggers": True, "count": 1}
            started = web.post(f"{g.admin_url}/api/v1/replays", headers=g.admin_headers, json=asked)
            assert started.status_code == 202, started.text
            g.wait_until(lambda: g.trigger("subscriber")["delivered"] == 1, 30, "the replay")
            assert g.status()["brokers"][0]["accepted"] == 2  # stored again, on purpose


def keyed(gateway: GatewayProcess, key: str | None, *events: dict[str, object]) -> httpx.Response:
    headers = {"content-type": BATCH, **({} if key is None else {"Idempotency-Key": key})}
    return web.post(gateway.ingress(), headers=headers, content=json.dumps(events).encode())


@pytest.mark.spec("ONCE-17")
def test_a_header_of_the_request_may_be_the_key(tmp_path: Path) -> None:
    more = "window: 7d, on_conflict: refuse, key: [type, {header: idempotency-KEY}]"
    text = CONFIG.replace("PORT", "0").replace("MORE", more).replace("URL", "http://127.0.0.1:1/")
    with GatewayProcess(text, tmp_path) as g:
        one, two = event(1), event(2)
        answers = [keyed(g, key, one) for key in ("a", "a", "b", None, None)]
        assert [a.status_code for a in answers] == [202] * 5
        assert [a.headers.get("tidegate-duplicate") for a in answers] == [None, "1", None, None, None]
        batches = [keyed(g, "c", one, two), keyed(g, "c", one, two), keyed(g, "c", {**one, "type": "other"}, two)]
        assert [a.headers.get("tidegate-duplicate") for a in batches] == [None, "5, 6", "6"]
        refused = keyed(g, "a", two)
        assert (refused.status_code, refused.json()["title"]) == (422, "Conflicting duplicate")
        assert "same type, header:idempotency-key but other content" in refused.json()["detail"]
        g.kill()
        g.start()
        assert keyed(g, "a", one).headers["tidegate-duplicate"] == "1"
        details = g.status()["brokers"][0]["channel"]["deduplication"]
        assert (details["key"], details["without_key"]) == (["type", "header:idempotency-key"], 0)


@pytest.mark.spec("ONCE-17")
def test_a_source_without_headers_is_a_fault_if_the_key_has_one(tmp_path: Path) -> None:
    config = tmp_path / "gateway.yaml"
    text = CONFIG.replace("PORT", str(free_port())).replace("MORE", "window: 1h, key: [{header: Idempotency-Key}]")
    mqtt = '      - http: {listen: "127.0.0.1:0"}\n      - mqtt: {server: localhost, topic: t}\n'
    config.write_text(text.replace("URL", "http://127.0.0.1:1/").replace("    deduplicate", f"{mqtt}    deduplicate"))
    found = tidegate("check", str(config), "--data-dir", str(tmp_path / "data"))
    assert (
        "brokers.default.ingress[2]: `mqtt` has no headers of requests, and the key of `deduplicate` needs"
        in found.stdout
    )


@pytest.mark.spec("ONCE-05")
def test_where_it_is_impossible_check_says_what_can(tmp_path: Path) -> None:
    config = tmp_path / "gateway.yaml"
    text = CONFIG.replace("PORT", str(free_port())).replace("MORE", "window: 1h").replace("URL", "http://127.0.0.1:1/")
    config.write_text(
        text.replace("    deduplicate", "    channel: {kafka: {bootstrap: 127.0.0.1:1}}\n    deduplicate")
    )
    found = tidegate("check", str(config), "--data-dir", str(tmp_path / "data"))
    assert found.returncode == 1
    why = "brokers.default.deduplicate: the channel `kafka` can't deduplicate; those that can: `jetstream`, `log`"
    assert why in found.stdout
    config.write_text(text)
    for workers in ("1", "2"):
        found = tidegate("check", str(config), "--data-dir", str(tmp_path / "data"), env={"TIDEGATE_WORKERS": workers})
        assert found.returncode == 0, found.stdout


class Sender(threading.Thread):
    """Sends each of its events twice, some of them in one batch with itself, until both are accepted."""

    def __init__(self, url: str, ids: list[int], finished: threading.Event) -> None:
        super().__init__(daemon=True)
        self._to = urlsplit(url)
        self._ids = ids
        self._finished = finished
        self.accepted: list[int] = []
        self.refused: list[int] = []

    def run(self) -> None:
        chance = random.Random(self._ids[0])
        for id in self._ids:
            for events in ([event(id)] * chance.choice((1, 1, 2)), [event(id), event(max(0, id - 8))]):
                if not self._send(events):
                    return
            self.accepted.append(id)

    def _send(self, events: list[dict[str, object]]) -> bool:
        while not self._finished.is_set():
            with suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection(self._to.hostname or "", self._to.port, timeout=10)
                try:
                    connection.request("POST", self._to.path, json.dumps(events), {"content-type": BATCH})
                    status = connection.getresponse().status
                finally:
                    connection.close()
                if status == 202:
                    return True
                if status != 503:
                    self.refused.append(status)
            self._finished.wait(0.02)
        return False


def workers_of(gateway: GatewayProcess) -> list[int]:
    """The processes of its workers."""
    return [int(pid) for pid in Path(f"/proc/{gateway.pid}/task/{gateway.pid}/children").read_text().split()]


def storm(tmp_path: Path, count: int, kills: int, workers: int = 1) -> None:
    """Kills a gateway while senders repeat everything, and counts what its log has. Of several workers, it kills one or
    all."""
    finished = threading.Event()
    with Subscriber() as s:
        # a run for every 1250 keys: some keys are in runs, others only in rows
        more = "window: 1d, max_keys: 10000"
        text = CONFIG.replace("PORT", str(free_port())).replace("MORE", more).replace("URL", s.url)
        with GatewayProcess(text, tmp_path, None, "--workers", str(workers)) as g:
            senders = [Sender(g.ingress(), list(range(n, count, 8)), finished) for n in range(8)]
            for sender in senders:
                sender.start()
            try:
                chance = random.Random(kills)
                for number in range(1, kills + 1):
                    goal = count * number // (kills + 1)
                    g.wait_until(lambda goal=goal: sum(len(x.accepted) for x in senders) >= goal, 120, f"{goal} events")
                    finished.wait(chance.random() * 0.2)
                    if workers > 1 and number % 2:
                        with suppress(ProcessLookupError):
                            os.kill(chance.choice(workers_of(g)), signal.SIGKILL)
                    else:
                        g.kill()
                        g.start()
                for sender in senders:
                    sender.join(120)
            finally:
                finished.set()
            assert sorted(id for sender in senders for id in sender.accepted) == list(range(count))
            assert not [status for sender in senders for status in sender.refused]
            # the status of several workers may be a little old
            g.wait_until(lambda: len({r.headers["ce-id"] for r in s.requests}) == count, 60, "the deliveries")
        delivered = {int(r.headers["ce-id"]) for r in s.requests}
    with LogReader(tmp_path / "data" / "log" / "default") as reader:
        shards = [[int(e.attributes["id"]) for e in reader.events(s, reader.read(s, 1))] for s in reader.shards()]
    assert len(shards) == workers
    assert all(shards), "a worker got no event, so the test shows nothing"
    stored = [id for shard in shards for id in shard]
    assert len(stored) == count, "an event is stored twice, or not at all"
    assert set(stored) == delivered == set(range(count))


@pytest.mark.timeout(300)
@pytest.mark.spec("ONCE-07")
def test_senders_that_repeat_everything_have_each_event_stored_once_over_kills(tmp_path: Path) -> None:
    storm(tmp_path, 1600, 4)


@pytest.mark.timeout(300)
@pytest.mark.spec("ONCE-09")
def test_two_workers_store_each_event_once_over_kills_of_one_and_of_both(tmp_path: Path) -> None:
    storm(tmp_path, 1600, 4, 2)


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.spec("ONCE-09")
def test_the_same_with_three_workers_over_many_kills(tmp_path: Path) -> None:
    storm(tmp_path, 9000, 40, 3)


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.spec("ONCE-07")
def test_the_same_over_many_kills(tmp_path: Path) -> None:
    storm(tmp_path, 9000, 40)
