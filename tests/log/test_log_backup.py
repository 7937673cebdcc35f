"""`tidegate backup` under load, a kill, `tidegate restore`: nothing that was accepted before the backup is missing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from gateway_log.shard import Shard
from gateway_testing import GatewayProcess, Received, Subscriber

from tests import web
from tests.command_line import tidegate
from tests.ledger import Ledger, dead_letters, free_port, start_senders

pytestmark = pytest.mark.usefixtures("processes")

CONFIG = """
brokers:
  default:
    ingress:
      - http: {listen: "127.0.0.1:PORT"}
  second:
    ingress:
      - http: {listen: "127.0.0.1:OTHER"}
triggers:
  eager: {subscriber: URL/eager}
  away:
    subscriber: URL/away
    delivery: {retry: 1000, backoff_delay_s: 0.05, backoff_max_s: 0.2}
  never:
    broker: second
    subscriber: URL/never
    delivery: {retry: 0}
"""

RUNNING = """
brokers: {default: {ingress: [{http: {listen: "127.0.0.1:0"}}]}}
triggers: {t: {subscriber: URL}}
"""


class Far:
    """Three subscribers: one takes all, one is down at first, one takes nothing."""

    def __init__(self) -> None:
        self.up = False
        self.took: dict[str, set[int]] = {"eager": set(), "away": set()}
        self._lock = threading.Lock()

    def decide(self, received: Received) -> int:
        name = received.path.strip("/")
        if name == "never":
            return 400
        if name == "away" and not self.up:
            return 503
        with self._lock:
            self.took[name].add(int(received.headers["ce-id"]))
        return 202


@pytest.mark.timeout(240)
@pytest.mark.spec("SAFE-53")
def test_a_backup_under_load_has_all_that_was_accepted(tmp_path: Path) -> None:
    far = Far()
    ledgers = {"default": Ledger(), "second": Ledger()}
    with Subscriber(decide=far.decide) as s:
        ports = {"PORT": free_port(), "OTHER": free_port()}
        config = CONFIG.replace("URL", s.url.rstrip("/"))
        for word, port in ports.items():
            config = config.replace(word, str(port))
        with GatewayProcess(config, tmp_path, None, "--workers", "2") as gateway:
            finished = threading.Event()
            senders = [
                t for b, ledger in ledgers.items() for t in start_senders(ledger, gateway.ingress(b), 10**6, finished)
            ]
            try:
                for broker in ledgers:
                    gateway.wait_until(lambda b=broker: len(ledgers[b].accepted) >= 1500, 60, "events")
                accepted = {broker: set(ledger.accepted) for broker, ledger in ledgers.items()}
                made = tidegate("backup", tmp_path / "copy", "--data-dir", gateway.data_dir, "--json")
                assert made.returncode == 0, made.stderr
                assert json.loads(made.stdout)["events"] >= sum(map(len, accepted.values()))
                gateway.wait_until(lambda: len(ledgers["default"].accepted) >= len(accepted["default"]) + 200, 60)
                # a worker that is gone starts again on its own: the first one last
                gateway.kill()
            finally:
                finished.set()
            for sender in senders:
                sender.join()
            eager_before = set(far.took["eager"])
            shutil.rmtree(gateway.data_dir)
            far.up = True
            assert tidegate("restore", tmp_path / "copy", "--data-dir", gateway.data_dir).returncode == 0
            gateway.start()
            gateway.wait_until(gateway.drained, 120, "the deliveries")
            assert accepted["default"] <= far.took["away"]
            assert accepted["default"] <= far.took["eager"] | eager_before
            letters = set(dead_letters(gateway.data_dir / "dead-letter"))
            assert accepted["second"] <= letters
            answer = web.post(
                gateway.ingress(),
                headers={"ce-id": "9", "ce-source": "/", "ce-type": "t", "ce-specversion": "1.0"},
                verify=False,
            )
            assert answer.status_code == 202
            assert gateway.stop() == 0
    verified = tidegate("log", "verify", "--data-dir", tmp_path / "data")
    assert verified.returncode == 0, verified.stdout


def fill(data_dir: Path, count: int = 10) -> None:
    folder = data_dir / "log" / "default"
    folder.mkdir(parents=True)
    shard = Shard(folder, 0, "full")
    shard._connection.execute("BEGIN")
    for _ in range(count):
        rows = [shard.next, 1, 0, None, b'{"id":"x"}', os.urandom(1000), None]
        shard._connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        shard.next += 1
    shard._connection.execute("COMMIT")
    shard.close()
    (data_dir / "applied").mkdir()
    (data_dir / "applied" / "more.yaml").write_text("triggers: {}\n")


@pytest.mark.spec("SAFE-53")
def test_a_backup_that_was_changed_is_refused(tmp_path: Path) -> None:
    fill(tmp_path / "data")
    assert tidegate("backup", tmp_path / "b", "--data-dir", tmp_path / "data").returncode == 0
    assert tidegate("restore", tmp_path / "b", "--check").returncode == 0
    shard = tmp_path / "b" / "log" / "default" / "shard-000.db"
    content = bytearray(shard.read_bytes())
    content[9000] ^= 1
    shard.write_bytes(content)
    (tmp_path / "b" / "applied" / "more.yaml").unlink()
    ran = tidegate("restore", tmp_path / "b", "--data-dir", tmp_path / "new")
    assert ran.returncode == 1
    assert "shard-000.db: has changed since" in ran.stderr
    assert "more.yaml: No such file" in ran.stderr
    assert not (tmp_path / "new").exists()


@pytest.mark.spec("SAFE-53")
def test_a_restore_puts_nothing_over_what_is_there_unless_told(tmp_path: Path) -> None:
    data = tmp_path / "data"
    fill(data)
    assert tidegate("backup", tmp_path / "b", "--data-dir", data).returncode == 0
    (data / "applied" / "more.yaml").write_text("changed")
    ran = tidegate("restore", tmp_path / "b", "--data-dir", data)
    assert (ran.returncode, "--force" in ran.stderr) == (1, True)
    assert (data / "applied" / "more.yaml").read_text() == "changed"
    ran = tidegate("restore", tmp_path / "b", "--data-dir", data, "--force")
    assert ran.returncode == 0, ran.stderr
    assert (data / "applied" / "more.yaml").read_text() == "triggers: {}\n"
    (aside,) = data.glob("replaced-*")
    assert (aside / "applied" / "more.yaml").read_text() == "changed"
    assert (aside / "log" / "default" / "shard-000.db").exists()
    assert (data / "log").stat().st_mode & 0o077 == 0


@pytest.mark.spec("SAFE-53")
def test_what_can_not_be_is_said(tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert tidegate("backup", tmp_path / "b", "--data-dir", data).returncode == 1
    fill(data)
    assert "is inside the data directory" in tidegate("backup", data / "b", "--data-dir", data).stderr
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x").touch()
    assert "is not empty" in tidegate("backup", tmp_path / "b", "--data-dir", data).stderr
    assert "is not a backup" in tidegate("restore", tmp_path / "b", "--data-dir", data).stderr
    assert not list(tmp_path.glob("b.partial*"))


@pytest.mark.spec("SAFE-53")
def test_nothing_is_restored_below_a_running_gateway(tmp_path: Path) -> None:
    with Subscriber() as s:
        config = RUNNING.replace("URL", s.url)
        with GatewayProcess(config, tmp_path) as gateway:
            assert tidegate("backup", tmp_path / "b", "--data-dir", gateway.data_dir).returncode == 0
            ran = tidegate("restore", tmp_path / "b", "--data-dir", gateway.data_dir, "--force")
            assert ran.returncode == 3
            assert "another gateway runs" in ran.stderr


@pytest.mark.spec("SAFE-53")
def test_a_backup_that_is_cut_short_leaves_no_backup(tmp_path: Path) -> None:
    fill(tmp_path / "data", 30_000)
    command = [sys.executable, "-m", "gateway_core.cli", "backup", tmp_path / "b", "--data-dir", tmp_path / "data"]
    child = subprocess.Popen(list(map(str, command)))
    end = time.monotonic() + 60
    while not list(tmp_path.glob("b.partial*/log/default/shard*")) and time.monotonic() < end:
        time.sleep(0.005)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert not (tmp_path / "b").exists()
    assert tidegate("restore", next(tmp_path.glob("b.partial*")), "--data-dir", tmp_path / "new").returncode == 1


def test_a_checkpoint_that_was_copied_while_its_query_ran_skips_no_batch(tmp_path: Path) -> None:
    data = tmp_path / "data"
    fill(data)
    checkpoint = data / "spark" / "table" / "checkpoint"
    for name, numbers in {"offsets": range(3, 8), "commits": range(3, 5)}.items():
        (checkpoint / name).mkdir(parents=True)
        for n in numbers:
            (checkpoint / name / str(n)).write_text("v1")
            (checkpoint / name / f".{n}.crc").write_text("crc")
    (checkpoint / "metadata").write_text('{"id":"the one that the table knows"}')
    (checkpoint.parent / "scratch").mkdir()
    (checkpoint.parent / "scratch" / "x").touch()
    assert tidegate("backup", tmp_path / "b", "--data-dir", data).returncode == 0
    assert tidegate("restore", tmp_path / "b", "--data-dir", tmp_path / "new").returncode == 0
    there = tmp_path / "new" / "spark" / "table"
    # the last that is planned must follow the last that is done: Spark would begin with batch 7
    assert sorted(p.name for p in (there / "checkpoint" / "offsets").iterdir() if p.name[0] != ".") == ["3", "4", "5"]
    assert sorted(p.name for p in (there / "checkpoint" / "commits").iterdir() if p.name[0] != ".") == ["3", "4"]
    assert not (there / "scratch").exists()
    # a table would take batches of the same query and number for ones that it has
    assert "the one that the table knows" not in (there / "checkpoint" / "metadata").read_text()


@pytest.mark.spec("SAFE-53")
def test_a_damaged_shard_keeps_nothing_else_from_being_copied(tmp_path: Path) -> None:
    data = tmp_path / "data"
    fill(data)
    shard = data / "log" / "default" / "shard-000.db"
    shard.write_bytes(b"this is no database" * 1000)
    (data / "dead-letter").mkdir()
    (data / "dead-letter" / "default.jsonl").write_bytes(b'{"id":"1","event":{}}\n')
    made = tidegate("backup", tmp_path / "b", "--data-dir", data)
    assert made.returncode == 0
    assert "default/shard-000 is damaged (file is not a database): copied as it is" in made.stderr
    assert tidegate("restore", tmp_path / "b", "--data-dir", tmp_path / "new").returncode == 0
    assert (tmp_path / "new" / "log" / "default" / "shard-000.db").read_bytes() == shard.read_bytes()
    assert (tmp_path / "new" / "dead-letter" / "default.jsonl").exists()


@pytest.mark.spec("SAFE-53")
def test_a_backup_lets_nobody_into_the_gateway(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    fill(data_dir)
    (data_dir / "admin.token").write_text("a-token")
    (data_dir / "audit").mkdir()
    (data_dir / "audit" / "audit.jsonl").write_text("{}\n")
    (data_dir / "applied" / "audit").write_text("a trigger of this name")
    assert tidegate("backup", tmp_path / "copy", "--data-dir", data_dir).returncode == 0
    copied = {str(p.relative_to(tmp_path / "copy")) for p in (tmp_path / "copy").rglob("*") if p.is_file()}
    assert "applied/audit" in copied
    assert not {"admin.token", "audit/audit.jsonl"} & copied
