"""Rows that can't be read are put aside and said; everything else goes on."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from gateway_log.checksum import checksum
from gateway_log.commands import app
from gateway_log.quarantine import Quarantine
from gateway_log.rows import Unreadable
from gateway_testing import GatewayProcess, Subscriber
from typer.testing import CliRunner

from tests import web
from tests.ledger import free_port

CONFIG = """
brokers:
  default:
    ingress:
      - http: {listen: "127.0.0.1:0"}
triggers:
  all:
    subscriber: URL
    delivery: {retry: 1000, backoff_delay_s: 0.05, backoff_max_s: 0.1}
"""

pytestmark = [pytest.mark.spec("SAFE-47")]


def run(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, ["quarantine", *(str(a) for a in arguments)])


def send(gateway: GatewayProcess, first: int, count: int) -> None:
    with web.client(verify=False) as client:
        for n in range(first, first + count):
            headers = {"ce-specversion": "1.0", "ce-id": str(n), "ce-source": "/s", "ce-type": "t"}
            answer = client.post(gateway.ingress(), headers=headers, content=b"<%05d>" % n)
            assert answer.status_code == 202


@contextmanager
def stopped(folder: Path, count: int) -> Iterator[tuple[GatewayProcess, int, Path]]:
    """A gateway that was stopped with so many events in its log, the port of its absent subscriber, and the log's
    file."""
    port = free_port()
    with GatewayProcess(CONFIG.replace("URL", f"http://127.0.0.1:{port}"), folder) as gateway:
        send(gateway, 1, count)
        gateway.stop()
        yield gateway, port, gateway.data_dir / "log" / "default" / "shard-000.db"


def write_no_json(file: Path, sequence: int) -> None:
    """Puts what is no JSON into a row, with the right checksum."""
    with closing(sqlite3.connect(file)) as db:
        row = db.execute(f"SELECT received_ns, flags, key, data FROM events WHERE sequence = {sequence}").fetchone()
        received_ns, flags, key, data = row
        wrong = b'{"id": "never closed'
        total = checksum(sequence, received_ns, flags, key, wrong, data)
        db.execute(
            "UPDATE events SET attributes = ?, checksum = ? WHERE sequence = ?", (wrong.decode(), total, sequence)
        )
        db.commit()


def test_each_event_of_ranges_in_any_order_is_known_once(tmp_path: Path) -> None:
    """Ranges of a damaged file touch and overlap: within, around, before and behind what is known."""
    told: list[Unreadable] = []
    quarantine = Quarantine(tmp_path, [0], lambda shard, found: told.append(found))
    known: set[int] = set()
    for first, last in [(10, 20), (5, 12), (12, 15), (18, 25), (40, 40), (26, 26), (30, 35), (28, 50), (1, 60), (3, 4)]:
        found = Unreadable(first, last, "damaged", page=True)
        new = not known.issuperset(range(first, last + 1))
        known |= {*range(first, last + 1)}
        quarantine.report(0, found)
        assert (quarantine.events, quarantine.has(0, found)) == (len(known), True)
        assert (told[-1:] == [found]) == new
    again = Quarantine(tmp_path, [0], lambda shard, found: told.append(found))
    assert again.events == len(known)


@pytest.mark.usefixtures("processes")
def test_a_row_that_is_no_event_is_put_aside_although_its_checksum_is_right(tmp_path: Path) -> None:
    with stopped(tmp_path, 20) as (gateway, port, file):
        write_no_json(file, 7)
        gateway.start()
        with Subscriber(port=port) as subscriber:
            gateway.wait_until(lambda: gateway.drained("all"))
            ids = {r.headers["ce-id"] for r in subscriber.requests}
        assert ids == {str(n) for n in range(1, 21)} - {"7"}
        assert gateway.status()["brokers"][0]["channel"]["quarantined"] == 1
        found = gateway.admin("/api/v1/events?id=8").json()
        assert [e["position"] for e in found["events"]] == [8]
        assert "event 7 can't be read: " in gateway.stderr.read_text()
    exported = CliRunner().invoke(app, ["export", "--data-dir", str(gateway.data_dir)]).stdout.splitlines()
    assert {json.loads(line)["id"] for line in exported} == ids
    assert "row.attributes: " in run("show", "7", "--data-dir", gateway.data_dir).stdout


@pytest.mark.usefixtures("processes")
def test_a_damaged_row_is_put_aside_and_the_others_are_delivered(tmp_path: Path) -> None:
    with stopped(tmp_path, 30) as (gateway, port, file):
        content = bytearray(file.read_bytes())
        content[content.index(b"<00012>") + 3] ^= 4
        content[content.index(b'"id":"20"') - 1] ^= 0x80
        file.write_bytes(content)
        with Subscriber(port=port) as subscriber:
            for _ in range(2):  # a second start finds the same and says nothing new
                gateway.start()
                gateway.wait_until(lambda: gateway.drained("all"))
                assert gateway.status()["brokers"][0]["channel"]["quarantined"] == 2
                assert gateway.status()["ready"]
                gateway.stop()
            gateway.start()
            send(gateway, 31, 1)
            gateway.wait_until(lambda: gateway.drained("all"))
            ids = {r.headers["ce-id"] for r in subscriber.requests}
        assert ids == {str(n) for n in range(1, 32)} - {"12", "20"}
        assert gateway.stderr.read_text().count("event 12 can't be read: its checksum is another one") == 1
        assert 'tidegate_channel_quarantined_events{broker="default"} 2' in gateway.admin("/metrics").text
    listed = json.loads(run("list", "--data-dir", gateway.data_dir, "--json").stdout)
    assert [(e["first"], e["last"], e["page"]) for e in listed] == [(12, 12, False), (20, 20, False)]
    assert "position=12 shard=0 events=1 row=yes" in run("list", "--data-dir", gateway.data_dir).stdout
    assert "row.data: <00412>" in run("show", "12", "--data-dir", gateway.data_dir).stdout
    assert "there is no quarantined event at position 13" in run("show", "13", "--data-dir", gateway.data_dir).stderr
    exported = [json.loads(line) for line in run("export", "--data-dir", gateway.data_dir).stdout.splitlines()]
    assert [e["row"]["sequence"] for e in exported] == [12, 20]
    out = tmp_path / "events"
    result = run("export", "--events", "--data-dir", gateway.data_dir, "-o", out)
    assert [json.loads(line)["id"] for line in out.read_text().splitlines()] == ["12"]
    assert "1 of 2 can't be read as events" in result.stderr
