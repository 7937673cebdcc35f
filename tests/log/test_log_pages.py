"""A damaged page stops nothing but what lies on it."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from gateway_testing import GatewayProcess, Subscriber

from gateway_core.contract.event import Event, split_position
from tests import web
from tests.ledger import free_port

PAGE = 4096
CONFIG = """
brokers:
  default:
    ingress:
      - http: {listen: "127.0.0.1:0"}
  other:
    ingress:
      - http: {listen: "127.0.0.1:0"}
triggers:
  all:
    subscriber: URL
    delivery: {retry: 1000, backoff_delay_s: 0.05, backoff_max_s: 0.1}
  others:
    broker: other
    subscriber: URL
"""

pytestmark = [pytest.mark.spec("SAFE-48")]


def config_to(port: int) -> str:
    return CONFIG.replace("URL", f"http://127.0.0.1:{port}")


def send(url: str, first: int, count: int) -> list[int]:
    answers = []
    with web.client(verify=False) as client:
        for n in range(first, first + count):
            headers = {"ce-specversion": "1.0", "ce-id": str(n), "ce-source": "/s", "ce-type": "t"}
            answers.append(client.post(url, headers=headers, content=b"<%05d>" % n + bytes(300)).status_code)
    return answers


def spoil(file: Path, *pages: int) -> None:
    """Overwrites pages, counted from 1, with noise."""
    content = bytearray(file.read_bytes())
    for page in pages:
        content[(page - 1) * PAGE : page * PAGE] = random.Random(page).randbytes(PAGE)
    file.write_bytes(content)


def page_of(file: Path, n: int) -> int:
    return file.read_bytes().index(b"<%05d>" % n) // PAGE + 1


def root_page(file: Path, table: str) -> int:
    with closing(sqlite3.connect(file)) as connection:
        page: int = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0]
    return page


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a gateway that has taken 200 events, delivered none and stopped."""
    gateway = GatewayProcess(config_to(free_port()), tmp_path_factory.mktemp("written"))
    with gateway:
        assert set(send(gateway.ingress(), 1, 200)) == {202}
        gateway.stop()
    return gateway.data_dir


@pytest.fixture
def stopped(tmp_path: Path, written: Path) -> GatewayProcess:
    """A gateway that has taken 200 events and delivered none, stopped."""
    gateway = GatewayProcess(config_to(free_port()), tmp_path)
    shutil.copytree(written, gateway.data_dir)
    return gateway


def delivered(gateway: GatewayProcess, *, lost: range, starts: int = 2) -> set[int]:
    """Starts the gateway, brings more events, and gives what the subscriber got."""
    port = int(gateway.config.read_text().split("http://127.0.0.1:")[1].split()[0])
    with Subscriber(port=port) as subscriber, gateway:
        for life in range(starts):
            if life:
                gateway.stop()
                gateway.start()
            more = 1000 * (life + 1)
            assert set(send(gateway.ingress(), more, 5)) == {202}
            assert set(send(gateway.ingress("other"), more + 500, 1)) == {202}
            gateway.wait_until(lambda: gateway.drained())
        status = next(b for b in gateway.status()["brokers"] if b["name"] == "default")
        assert status["ready"]
        fault = status["channel"]["faults"]["shard-000.db"]
        assert "shard-000.db is damaged" in fault
        assert "tidegate log repair" in fault
        assert "shard-000.db is damaged" in gateway.stderr.read_text()
        got = {int(r.headers["ce-id"]) for r in subscriber.requests}
    missing = set(range(1, 201)) - got
    assert missing <= set(lost)
    for life in range(starts):
        assert {*range(1000 * (life + 1), 1000 * (life + 1) + 5), 1000 * (life + 1) + 500} <= got
    return missing


@pytest.mark.usefixtures("processes")
def test_events_behind_a_damaged_page_are_delivered(stopped: GatewayProcess) -> None:
    file = stopped.data_dir / "log" / "default" / "shard-000.db"
    spoil(file, page_of(file, 100))
    assert 1 <= len(delivered(stopped, lost=range(80, 120))) <= 15


@pytest.mark.usefixtures("processes")
def test_several_pages_and_the_last(stopped: GatewayProcess) -> None:
    file = stopped.data_dir / "log" / "default" / "shard-000.db"
    spoil(file, page_of(file, 1), page_of(file, 50), page_of(file, 200))
    missing = delivered(stopped, lost=range(1, 201))
    assert 3 <= len(missing) <= 45
    assert missing & set(range(40, 60))


@pytest.mark.parametrize("table", ["feeds", "meta"])
@pytest.mark.usefixtures("processes")
def test_the_places_of_triggers_are_damaged(stopped: GatewayProcess, table: str) -> None:
    """They get all events again: better twice than never."""
    file = stopped.data_dir / "log" / "default" / "shard-000.db"
    spoil(file, root_page(file, table))
    assert delivered(stopped, lost=range(0)) == set()


@pytest.mark.usefixtures("processes")
def test_nothing_of_the_file_can_be_read(stopped: GatewayProcess) -> None:
    file = stopped.data_dir / "log" / "default" / "shard-000.db"
    spoil(file, 1)
    assert delivered(stopped, lost=range(1, 201)) == set(range(1, 201))


@pytest.mark.usefixtures("processes")
def test_the_schema_has_lost_all_tables(stopped: GatewayProcess) -> None:
    file = stopped.data_dir / "log" / "default" / "shard-000.db"
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET type = NULL, name = NULL, tbl_name = NULL, sql = NULL")
    assert delivered(stopped, lost=range(1, 201)) == set(range(1, 201))


@pytest.mark.usefixtures("processes")
def test_the_tree_above_the_events_is_damaged(stopped: GatewayProcess) -> None:
    file = stopped.data_dir / "log" / "default" / "shard-000.db"
    spoil(file, root_page(file, "events"))
    assert len(delivered(stopped, lost=range(1, 201))) == 200


@pytest.mark.usefixtures("processes")
def test_a_file_that_was_cut(stopped: GatewayProcess) -> None:
    file = stopped.data_dir / "log" / "default" / "shard-000.db"
    file.write_bytes(file.read_bytes()[: page_of(file, 150) * PAGE - 1])
    missing = delivered(stopped, lost=range(100, 201))
    assert missing


@pytest.mark.anyio
@pytest.mark.usefixtures("real_time")
async def test_damage_while_it_runs_is_survived(log: Any) -> None:
    """A new file takes over; what was acknowledged and can be read is delivered."""
    channel = await log.open()
    await log.append(channel, [log.event(n, b"<%05d>" % n + bytes(300)) for n in range(1, 3001)])
    await log.stop(channel)
    slow, live = log.Subscriber(start=True, room=100), log.Subscriber(acks=True)
    channel = await log.open({"slow": slow, "live": live})
    file = log.folder / "shard-000.db"
    spoil(file, page_of(file, 1800), page_of(file, 2500))
    await log.append(channel, log.events(5, 4000))
    slow.room, slow.acks = 10**9, True
    slow.ack(*slow.held)
    slow.feed.resume()
    await log.wait(lambda: "1" in channel.info()["shards"])
    for n in range(5000, 5020):
        await log.append(channel, [log.event(n)])
    await log.wait(lambda: slow.feed.lag() == 0 and live.feed.lag() == 0)

    got = [int(e.attributes["id"]) for e in slow.events]
    assert 2 <= len(set(range(1, 3001)) - set(got)) <= 30
    assert {*range(4000, 4005), *range(5000, 5020)} <= set(got)
    assert [int(e.attributes["id"]) for e in live.events] == [*range(4000, 4005), *range(5000, 5020)]
    assert [p >> 48 for p in live.got][-1] == 1
    assert channel.info()["writable"]
    assert "tidegate log repair" in channel.info()["faults"]["shard-000.db"]
    await log.stop(channel)
    again = log.Subscriber(acks=True)
    await log.open({"slow": again})
    assert again.got == []


@pytest.mark.anyio
@pytest.mark.usefixtures("real_time")
async def test_a_damaged_file_is_not_written_to(log: Any) -> None:
    channel = await log.open({"s": log.Subscriber(room=5)})
    await log.append(channel, [log.event(n, b"<%05d>" % n + bytes(300)) for n in range(1, 101)])
    await log.stop(channel)
    file = log.folder / "shard-000.db"
    spoil(file, page_of(file, 50))
    subscriber = log.Subscriber(start=True, acks=True)
    channel = await log.open({"s": subscriber})
    await log.wait(lambda: subscriber.feed.lag() == 0)
    await log.wait(lambda: len(channel._shards) == 2)
    await log.stop(channel)
    before = file.read_bytes()
    channel = await log.open({"s": log.Subscriber(acks=True)})
    await log.append(channel, [Event({"id": "x"}, b"")])
    await log.stop(channel)
    assert file.read_bytes() == before
    assert split_position(subscriber.got[-1]) == (0, 100)
