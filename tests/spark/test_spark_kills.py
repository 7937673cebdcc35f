"""Exactly once, by a ledger: whatever is killed, at whichever step of a batch, the table has each event that the
channel took once, byte for byte, and the quarantine table each that can't be in it."""

from __future__ import annotations

import base64
import http.client
import json
import random
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path

import pytest
from gateway_testing.process import GatewayProcess

from tests.ledger import free_port
from tests.processes import log_lines
from tests.spark.channels import Channel, Kafka, Log, Row
from tests.spark.killer import LIMIT_S, STEPS, Killer, Part, Step
from tests.spark.table_files import rows

pytestmark = [pytest.mark.usefixtures("own_spark"), pytest.mark.spec("CARD-03")]

CONFIG = """
brokers: {{default: {{ingress: [http: {{listen: "127.0.0.1:{port}"}}], channel: {channel}}}}}
triggers:
  table:
    start: earliest
    subscriber:
      spark:
        path: {table}
        format: {format}
        data_schema: "n INT, text STRING"
        trigger_interval_s: 0.2
        restart_delay_s: 0.1
        restart_delay_max_s: 0.2
        conf:
          spark.driver.extraJavaOptions: "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
          spark.sql.codegen.wholeStage: "false"
          spark.sql.codegen.factoryMode: NO_CODEGEN
          spark.sql.shuffle.partitions: "1"
"""
Entry = tuple[str, bytes]


def data_of(number: int) -> bytes:
    """Every seventh is JSON, but not what the schema wants."""
    n = '"many"' if number % 7 == 0 else str(number)
    return f'{{"n": {n}, "text": "{random.Random(number).randbytes(number % 300).hex()}"}}'.encode()


class Load(threading.Thread):
    """Sends events, in batches, until it is told to stop; a batch without a 2xx is sent again, as it was."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.accepted: set[str] = set()
        self.uncertain: set[str] = set()  # what the channel may have more than once: it was sent again
        self._port = port
        self._ending = threading.Event()
        self._next = 0

    def run(self) -> None:
        chance = random.Random(5)
        while not self._ending.wait(0.05):
            numbers = range(self._next, self._next + chance.randrange(1, 10))
            self._next = numbers.stop
            while not self._post(numbers):
                self.uncertain.update(map(str, numbers))
                self._ending.wait(0.05)

    def stop(self) -> None:
        self._ending.set()
        self.join()

    def _post(self, numbers: Iterable[int]) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=10)
        try:
            body = json.dumps([_event(n) for n in numbers])
            connection.request("POST", "/", body, {"content-type": "application/cloudevents-batch+json"})
            if connection.getresponse().status != 202:
                return False
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
        self.accepted.update(map(str, numbers))
        return True


def _event(number: int) -> dict[str, str]:
    base = {"specversion": "1.0", "id": str(number), "source": "/kills", "type": "made"}
    return {**base, "datacontenttype": "application/json", "data_base64": base64.b64encode(data_of(number)).decode()}


def of_table(table: Path, format: str, data: str) -> Iterator[Row]:
    for row in rows(table, format, ["shard", "position", "id", data]):
        yield row["shard"], row["position"], row["id"], row[data]


def run(
    folder: Path, channel: Channel, format: str, strikes: Iterable[tuple[Part, Step]], seed: int, workers: int = 1
) -> Killer:
    port = free_port()
    table = folder / "table"
    load = Load(port)
    flags = ["--workers", str(workers)]
    config = CONFIG.format(port=port, channel=channel.config, table=table, format=format)
    with GatewayProcess(config, folder, None, *flags) as gateway:
        load.start()
        killer = Killer(gateway, channel, table, format, seed)
        try:
            for part, step in strikes:
                killer.strike(part, step)
        finally:
            load.stop()
            print(report(killer))
        gateway.wait_until(lambda: gateway.trigger("table")["lag"] == 0, LIMIT_S, "the table to have all")
        assert gateway.stop() == 0
        log = log_lines(gateway)
        starts = {line["level"] for line in log if "the reader is starting" in line["message"]}
        assert starts == {"info"}, "a start is no error"
    taken = list(channel.taken(gateway.data_dir))
    ids = Counter(id for _, _, id, _ in taken)
    assert load.accepted <= ids.keys(), "the channel has each event with a 2xx"
    assert {id for id, count in ids.items() if count > 1} <= load.uncertain
    assert all(data == data_of(int(id)) for _, _, id, data in taken)
    good = Counter(of_table(table, format, "data_raw"))
    bad = Counter(of_table(folder / "table_quarantine", format, "data"))
    assert good == Counter(row for row in taken if int(row[2]) % 7)
    assert bad == Counter(row for row in taken if not int(row[2]) % 7)
    return killer


def report(killer: Killer) -> str:
    lines = [f"{'part':8}  {'aimed at':8}  {'hit':8}  kills"]
    lines += [f"{part:8}  {step:8}  {hit:8}  {n}" for (part, step, hit), n in sorted(killer.struck.items())]
    return "\n".join([*lines, f"{'all':28}  {killer.struck.total()}"])


PARTS_OF: dict[str, tuple[Part, ...]] = {
    "log": ("jvm", "driver", "worker", "gateway", "disk"),
    "kafka": ("jvm", "driver", "broker", "gateway", "disk"),  # its rows are made by SQL: there is no Python worker
}
# each part and each step, on one channel or the other; the long form has all pairs
SOME: dict[tuple[str, str], list[tuple[Part, Step]]] = {
    ("log", "parquet"): [
        ("jvm", "files"),
        ("worker", "offsets"),
        ("gateway", "commit"),
    ],
    ("kafka", "delta"): [
        ("broker", "files"),
        ("driver", "commit"),
        ("gateway", "cursor"),
    ],
}


@pytest.fixture
def channel(request: pytest.FixtureRequest, kind: str) -> Channel:
    """The channel of that kind."""
    return Kafka(request.getfixturevalue("own_kafka")()) if kind == "kafka" else Log()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["log"])
def test_each_event_is_in_the_table_once_after_a_kill_during_a_commit(
    tmp_path: Path, kind: str, channel: Channel
) -> None:
    assert run(tmp_path, channel, "parquet", [("jvm", "commit")], 1).struck.total() == 1


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("kind", "format"), SOME)
def test_each_event_is_in_the_table_once_after_kills_at_each_step(
    tmp_path: Path, kind: str, channel: Channel, format: str
) -> None:
    killer = run(tmp_path, channel, format, SOME[kind, format], 1)
    assert killer.struck.total() == len(SOME[kind, format])


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", [2, 3, 4])
@pytest.mark.parametrize("format", ["parquet", "delta"])
@pytest.mark.parametrize("kind", PARTS_OF)
def test_each_event_is_in_the_table_once_after_many_kills(
    tmp_path: Path, kind: str, channel: Channel, format: str, seed: int
) -> None:
    strikes = list(product(PARTS_OF[kind], STEPS))
    random.Random(seed).shuffle(strikes)
    killer = run(tmp_path, channel, format, strikes, seed, workers=1 + seed % 2)
    assert killer.struck.total() == len(strikes) == 20
    assert {hit for _, _, hit in killer.struck} >= set(STEPS), "each step was hit"
