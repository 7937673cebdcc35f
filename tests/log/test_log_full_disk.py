"""A disk that is full: nothing accepted is lost, deliveries continue, and the gateway recovers by itself."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from gateway_testing import GatewayProcess, Subscriber

from gateway_core.contract.errors import StorageError
from tests import web
from tests.command_line import tidegate
from tests.ledger import free_port
from tests.log.conftest import Log
from tests.small_disk import INSIDE, PASSED_ELSEWHERE, fill, mounts, run_where_it_may_mount, small_disk

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.timeout(400)]

CONFIG = """
brokers:
  default:
    ingress:
      - http: {listen: "127.0.0.1:PORT"}
triggers:
  taker:
    subscriber: URL
    delivery: {retry: 1000, backoff_delay_s: 0.05, backoff_max_s: 0.2}
"""
BODY = os.urandom(40_000)


@pytest.fixture
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A disk of 30 MB; a test that can't have one here has it in namespaces of its own."""
    if not mounts(tmp_path / "try"):
        assert INSIDE not in os.environ, "no mount in the namespaces either"
        run_where_it_may_mount(request.node.nodeid)
        yield PASSED_ELSEWHERE
        return
    with small_disk(tmp_path / "disk") as where:
        yield where


class Flow:
    """Senders that never stop, and what became of their events."""

    def __init__(self) -> None:
        self.accepted: set[str] = set()
        self.got: dict[str, int] = {}
        self.answers: dict[int, int] = {}
        self.problem: httpx.Response | None = None
        self.up = True
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def decide(self, received: object) -> int:
        if not self.up:
            return 503
        id = received.headers["ce-id"]  # type: ignore[attr-defined]
        with self._lock:
            self.got[id] = self.got.get(id, 0) + 1
        return 202

    def start(self, url: str, senders: int = 3) -> None:
        self._stop.clear()
        self._threads = [threading.Thread(target=self._send, args=(url, n)) for n in range(senders)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _send(self, url: str, sender: int) -> None:
        number = 0
        stamp = time.monotonic_ns()
        with web.client(verify=False) as client:
            while not self._stop.is_set():
                number += 1
                id = f"{sender}-{stamp}-{number}"
                headers = {"ce-id": id, "ce-source": "/full", "ce-type": "t", "ce-specversion": "1.0"}
                try:
                    answer = client.post(url, content=BODY, headers=headers)
                except httpx.HTTPError:
                    time.sleep(0.05)
                    continue
                with self._lock:
                    self.answers[answer.status_code] = self.answers.get(answer.status_code, 0) + 1
                    if answer.status_code == 202:
                        self.accepted.add(id)
                if answer.status_code != 202:
                    self.problem = answer
                    time.sleep(0.02)


def gateway_on(disk: Path, folder: Path, url: str, *flags: str) -> GatewayProcess:
    config = CONFIG.replace("PORT", str(free_port())).replace("URL", url)
    gateway = GatewayProcess(config, folder, None, *flags)
    gateway.data_dir = disk / "data"
    return gateway


def used(disk: Path) -> int:
    return sum(f.stat().st_size for f in (disk / "data" / "log").rglob("*") if f.is_file())


def is_full(flow: Flow) -> bool:
    return flow.problem is not None and flow.problem.status_code == 503


@pytest.mark.spec("SAFE-51")
@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.full)])
def test_a_disk_that_the_log_filled_recovers_by_itself(disk: Path, tmp_path: Path, workers: int) -> None:
    flow = Flow()
    with (
        Subscriber(decide=flow.decide) as s,
        gateway_on(disk, tmp_path, s.url, "--workers", str(workers)) as gateway,
    ):
        flow.start(gateway.ingress())
        try:
            # 48 MB through a disk of 30 MB
            gateway.wait_until(lambda: len(flow.accepted) >= 1_200, 200, "1,200 accepted events")
        finally:
            flow.stop()
        gateway.wait_until(gateway.drained, 60, "the deliveries")
        assert flow.accepted <= set(flow.got)
        assert flow.answers.keys() <= {202, 503}, flow.answers
        gateway.wait_until(lambda: gateway.admin("/health/ready").status_code == 200, 60, "to be ready")
        assert gateway.stop() == 0


@pytest.mark.spec("SAFE-51")
def test_a_full_disk_with_a_subscriber_that_is_away_survives_restarts(disk: Path, tmp_path: Path) -> None:
    flow = Flow()
    flow.up = False
    with Subscriber(decide=flow.decide) as s, gateway_on(disk, tmp_path, s.url) as gateway:
        flow.start(gateway.ingress())
        try:
            gateway.wait_until(lambda: is_full(flow), 60, "a full disk")
            gateway.wait_until(lambda: not gateway.status()["ready"], 60, "the status to say it")
            problem = flow.problem
            assert problem is not None
            assert "retry-after" in problem.headers
            assert "full" in problem.json()["detail"]
            assert "full" in gateway.status()["brokers"][0]["reason"]
            assert gateway.admin("/health/ready").status_code == 503
            before = len(flow.accepted)
            # nothing eats what was kept for the deliveries
            time.sleep(1)
            assert len(flow.accepted) == before
        finally:
            flow.stop()
        fill(disk)  # and now another program takes what was left
        for way in (gateway.kill, gateway.stop, gateway.kill):
            way()
            gateway.start()
            answer = web.post(
                gateway.ingress(), json={}, headers={"ce-id": "x", "ce-source": "/", "ce-type": "t"}, verify=False
            )
            assert answer.status_code in (400, 503)
        flow.up = True
        gateway.wait_until(lambda: flow.accepted <= set(flow.got), 60, "the deliveries")
        flow.problem = None
        flow.start(gateway.ingress())
        try:
            gateway.wait_until(lambda: len(flow.accepted) >= before + 50, 60, "events to be taken again")
        finally:
            flow.stop()
        gateway.wait_until(gateway.drained, 60, "the deliveries")
        assert flow.accepted <= set(flow.got)


@pytest.mark.spec("SAFE-51")
def test_a_start_without_any_room_says_so_and_loses_nothing(disk: Path, tmp_path: Path) -> None:
    """Another program took the reserve, too, while the gateway was down."""
    headers = {"ce-specversion": "1.0", "ce-id": "kept", "ce-source": "/t", "ce-type": "t"}
    flow = Flow()
    flow.up = False
    with Subscriber(decide=flow.decide) as s, gateway_on(disk, tmp_path, s.url) as gateway:
        assert web.post(gateway.ingress(), content=b"x", headers=headers, verify=False).status_code == 202
        gateway.kill()
        for ballast in disk.rglob("*.ballast"):
            ballast.unlink()
        for index in disk.rglob("*-shm"):
            index.unlink()
        file = fill(disk)
        with pytest.raises(AssertionError, match=r"the disk seems to be full: free some space"):
            gateway.start()
        assert "Traceback" not in gateway.log()
        file.unlink()
        flow.up = True
        gateway.start()
        gateway.wait_until(lambda: flow.got == {"kept": 1}, 60, "the delivery")


@pytest.mark.spec("SAFE-51")
def test_the_write_ahead_log_has_a_bound(disk: Path, tmp_path: Path) -> None:
    flow = Flow()
    with Subscriber(decide=flow.decide) as s, gateway_on(disk, tmp_path, s.url) as gateway:
        wal = disk / "data" / "log" / "default" / "shard-000.db-wal"
        largest = 0
        flow.start(gateway.ingress())
        try:
            while len(flow.accepted) < 500:
                largest = max(largest, wal.stat().st_size)
                time.sleep(0.005)
        finally:
            flow.stop()
        assert largest < 5_000_000


@pytest.mark.spec("SAFE-51")
def test_a_reader_that_never_ends_is_told_of_and_left_behind(disk: Path, tmp_path: Path) -> None:
    flow = Flow()
    with Subscriber(decide=flow.decide) as s, gateway_on(disk, tmp_path, s.url) as gateway:
        flow.start(gateway.ingress())
        try:
            gateway.wait_until(lambda: len(flow.accepted) > 50, 60, "events")
            path = disk / "data" / "log" / "default" / "shard-000.db"
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)) as reader:
                reader.execute("BEGIN")
                reader.execute("SELECT count(*) FROM events").fetchone()
                gateway.wait_until(lambda: "keeps a read of this file open" in gateway.log(), 60, "a warning")
                gateway.wait_until(lambda: is_full(flow), 60, "a full disk")
            flow.problem = None
            before = len(flow.accepted)
            gateway.wait_until(lambda: len(flow.accepted) > before + 100, 60, "events to be taken again")
        finally:
            flow.stop()
        gateway.wait_until(gateway.drained, 60, "the deliveries")
        assert flow.accepted <= set(flow.got)


@pytest.mark.spec("SAFE-51")
def test_dead_letters_and_changes_on_a_full_disk_are_whole_or_refused(disk: Path, tmp_path: Path) -> None:
    flow = Flow()
    flow.up = False
    config = CONFIG.replace("retry: 1000", "retry: 0")  # every event becomes a dead letter, larger than the event
    with Subscriber(decide=lambda r: 202 if flow.up else 400) as s:
        config = config.replace("PORT", str(free_port())).replace("URL", s.url)
        gateway = GatewayProcess(config, tmp_path)
        gateway.data_dir = disk / "data"
        with gateway:
            flow.start(gateway.ingress())
            try:
                gateway.wait_until(lambda: is_full(flow), 60, "a full disk")
            finally:
                flow.stop()
            of_another = fill(disk)
            more = tmp_path / "more.yaml"
            more.write_text(f"triggers: {{more: {{subscriber: {s.url}}}}}\n")
            ran = tidegate("apply", "-f", more, "--data-dir", gateway.data_dir)
            assert ran.returncode == 0 or "No space left" in ran.stderr, ran.stderr
            gateway.kill()
            gateway.start()
            of_another.unlink()
            gateway.wait_until(lambda: gateway.trigger("taker")["lag"] == 0, 60, "the dead letters")
        letters = [
            json.loads(line)["event"]["id"]
            for file in (disk / "data" / "dead-letter").glob("*.jsonl")
            for line in file.read_bytes().splitlines()
        ]
        assert flow.accepted <= set(letters)


@pytest.mark.anyio
@pytest.mark.spec("SAFE-80")
@pytest.mark.parametrize("size", [10_000, 100_000, 1_000_000])
async def test_a_disk_that_large_appends_filled_recovers_by_itself(
    disk: Path, log_at: Callable[[Path], Log], size: int
) -> None:
    """One append is one transaction, however large: as of a batch, or of a source with a backlog."""
    log = log_at(disk)
    taker = log.Subscriber()
    channel = await log.open({"taker": taker})
    stored = 0
    full = False
    while not full:
        batch = log.events(max(1, 8_000_000 // size), stored)
        for event in batch:
            event.data = os.urandom(size)
        try:
            await log.append(channel, batch)
        except StorageError:
            full = True
        else:
            stored += len(batch)
    other = fill(disk)
    await log.wait(lambda: len(taker.got) == stored)
    taker.ack(*taker.held)
    await log.wait(lambda: channel.info()["writable"])
    assert other.exists()
    await log.append(channel, log.events(1))
    await log.stop(channel)

    taker = log.Subscriber()
    channel = await log.open({"taker": taker})
    await log.wait(lambda: len(taker.got) == 1)  # what had been delivered is not delivered again
    await log.stop(channel)
