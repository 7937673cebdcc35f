"""The pages of tables: how the queries do, and the newest rows of what they write, read without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from gateway_console.health import health_of
from gateway_console.sampler import Sample
from gateway_console.table_view import batches
from gateway_spark.naming import name_of
from gateway_spark.tables.event_row import event_row
from gateway_spark.tables.newest_rows import newest, tables
from playwright.sync_api import Page, expect
from pyarrow import parquet

from gateway_core.config.registry import Registry
from gateway_core.contract.clock import SystemClock
from gateway_core.contract.component import BuildContext, SinkRef
from gateway_core.contract.status import GatewayStatus, ReaderStatus, TriggerStatus
from tests import web
from tests.console.axe import violations
from tests.console.lab import CONFIG, Lab, lab

pytestmark = pytest.mark.spec("CO-60")

SPARK = """
  lake:
    broker: default
    start: earliest
    subscriber: {{spark: {{path: "{tables}/lake", runs: submitted}}}}
  ice:
    broker: default
    subscriber: {{spark: {{path: "{tables}/delta", format: delta, runs: submitted}}}}
console:
  hide: {{data: true, attributes: [tenant], below: operator}}
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, processes: None) -> Iterator[Lab]:
    """A gateway with queries that run elsewhere: it follows them, as it would its own."""
    folder = tmp_path_factory.mktemp("tables")
    with lab(folder, CONFIG + SPARK, tables=str(folder)) as found:
        yield found


def write(folder: Path, name: str, first: int, count: int) -> Path:
    """A file as Spark writes them: rows of events with these numbers."""
    folder.mkdir(exist_ok=True)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        {
            "id": f"e{number}",
            "source": "/tests",
            "extensions": [("tenant", "acme")],
            "data": b'{"secret": 1}',
            "position": number,
            "received": at.replace(second=number),
        }
        for number in range(first, first + count)
    ]
    types = {
        "id": pa.string(),
        "source": pa.string(),
        "extensions": pa.map_(pa.string(), pa.string()),
        "data": pa.binary(),
    }
    schema = pa.schema({**types, "position": pa.int64(), "received": pa.timestamp("us", "UTC")})
    parquet.write_table(pa.Table.from_pylist(rows, schema), folder / name)
    return folder / name


def commit(folder: Path, number: str, *files: Path) -> None:
    """A batch in Spark's log of files."""
    log = folder / "_spark_metadata"
    log.mkdir(exist_ok=True)
    entries = [{"path": file.as_uri(), "size": 1, "isDir": False, "action": "add"} for file in files]
    (log / number).write_text("\n".join(["v1", *map(json.dumps, entries)]))


def ids(found: Any) -> list[str]:
    return [row["id"] for row in found.rows]


def test_the_newest_rows_of_a_parquet_table_are_those_that_count(tmp_path: Path) -> None:
    lake = tmp_path / "a lake"
    files = [write(lake, f"part-{number}.parquet", 10 * number, 3) for number in range(4)]
    assert newest(str(lake), "parquet", 10).rows == []
    commit(lake, "9.compact", files[0], files[1])
    commit(lake, "10", files[2])
    assert ids(newest(str(lake), "parquet", 4)) == ["e22", "e21", "e20", "e12"]
    assert newest(str(lake), "parquet", 4).files == 2
    files[1].write_bytes(b"torn")
    with pytest.raises(ValueError, match=r"the table can't be read: .*[Pp]arquet"):
        newest(str(lake), "parquet", 4)
    with pytest.raises(ValueError, match="only be read with Spark"):
        newest(str(lake), "iceberg", 4)
    with pytest.raises(ValueError, match="not on this machine"):
        newest("s3a://lake/orders", "parquet", 4)


def test_the_newest_rows_of_a_delta_table_are_those_that_count(tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    for number in range(3):
        name = write(tmp_path, f"part {number}.parquet", 10 * number, 2).name.replace(" ", "%20")
        actions: list[dict[str, Any]] = [
            {"txn": {"appId": "q", "version": number}},
            {"add": {"path": name, "dataChange": True}},
        ]
        if number == 2:
            actions.append({"remove": {"path": "part%201.parquet"}})
        (log / f"{number:020}.json").write_text("\n".join(map(json.dumps, actions)))
    assert ids(newest(str(tmp_path), "delta", 10)) == ["e21", "e20", "e1", "e0"]
    row = event_row(str(tmp_path), "delta", "table", "e20", "/tests")
    assert row is not None
    assert (row.rows[0]["position"], row.batch, row.files) == (20, 2, 1)
    assert event_row(str(tmp_path), "delta", "table", "e20", "/elsewhere") is None
    (log / f"{3:020}.json").write_text(json.dumps({"add": {"path": "x", "deletionVector": {"storageType": "u"}}}))
    with pytest.raises(ValueError, match="deletion vectors"):
        newest(str(tmp_path), "delta", 10)


def test_tables_of_event_types_are_found(tmp_path: Path) -> None:
    for name in ("t-order.paid", "t-order.paid_quarantine", "t-x%2Fy", "other"):
        (tmp_path / name).mkdir()
    assert list(tables(f"{tmp_path}/t-{{type}}", "")) == ["t-order.paid", "t-order.paid_quarantine", "t-x%2Fy"]
    assert list(tables(f"{tmp_path}/plain", "")) == ["table", "quarantine"]


def test_batches_are_known_from_what_was_sampled() -> None:
    def sample(batch: int | None, rows: int) -> Sample:
        details = {"batch": batch, "batch_at": "2026-01-01T00:00:00Z", "rows_per_s": 5.0, "batch_s": 0.5}
        reader = ReaderStatus(state="running", rows=rows, details=details)
        status = GatewayStatus(version="1", triggers=[TriggerStatus(name="t", broker="b", reader=reader)])
        return Sample(0.0, status, {})

    seen = [sample(3, 10), sample(3, 10), sample(4, 25), sample(5, 25), sample(7, 30)]
    assert [(batch.number, batch.rows) for batch in batches(seen, "t")] == [(7, 5), (4, 15)]


@pytest.mark.area(name="console")
def test_a_query_and_its_last_rows_are_shown(page: Page, shared: Lab) -> None:
    lake = shared.gateway.config.parent / "lake"
    commit(lake, "0", write(lake, "part-0.parquet", 1, 30))
    shared.send(*({"id": str(number)} for number in range(7)))
    page.goto(f"{shared.url}/tables")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="lake"))
    expect(row).to_contain_text("submitted")
    expect(row.get_by_role("cell").nth(4)).to_have_text("7")
    page.get_by_role("link", name="lake").click()
    expect(page.get_by_text("follows it by its checkpoint")).to_be_visible()
    page.get_by_role("button", name="Show the last rows").click()
    rows = page.get_by_role("region", name="Last rows")
    expect(rows.get_by_role("row")).to_have_count(21)
    expect(rows.get_by_role("row").nth(1)).to_contain_text('{"secret": 1}')
    expect(rows.get_by_role("row").nth(1)).to_contain_text("e30")
    assert violations(page) == []
    page.get_by_role("combobox").select_option("quarantine")
    page.get_by_role("button", name="Show the last rows").click()
    expect(page.get_by_text("There are no rows in it yet")).to_be_visible()


def test_an_event_has_its_row_in_a_table_on_its_page(page: Page, shared: Lab) -> None:
    lake = shared.gateway.config.parent / "lake"
    commit(lake, "0", write(lake, "part-0.parquet", 1, 30))
    commit(lake, "1", write(lake, "part-1.parquet", 31, 5))
    shared.send({"id": "e33"}, {"id": "e99"})
    page.goto(f"{shared.url}/events?id=e33&source=/tests")
    row = page.locator("#row-lake")
    expect(row).to_contain_text("Row in table, written by batch 1")
    expect(row.get_by_role("row").filter(has_text="position")).to_contain_text("33")
    expect(row).to_contain_text('{"secret": 1}')
    expect(page.get_by_text("Its row is not among the newest ones of the table")).to_be_visible()  # that of `ice`
    assert violations(page) == []
    page.goto(f"{shared.url}/events?id=e99&source=/tests")
    expect(page.get_by_text("Its row is not among the newest ones of the table")).to_have_count(2)
    with pytest.raises(ValueError, match="only be read with Spark"):
        event_row("x.y.z", "iceberg", "table", "e1", "/tests")


def test_an_event_is_looked_for_in_the_tables_of_its_type_alone(tmp_path: Path) -> None:
    context = BuildContext("triggers.lake", tmp_path, SystemClock(), Registry.installed(), trigger="lake")
    config = {"path": str(tmp_path / "t_{type}"), "runs": "submitted"}
    sink: Any = Registry.installed().build(SinkRef("spark", config), context)
    twin = f"t_{name_of('order', ['order'])}"
    places = {"e1": "t_order", "e2": "t_order_quarantine", "e3": twin, "e4": "t_other_quarantine", "e5": "t_order.paid"}
    for number, name in enumerate(places.values(), 1):
        (tmp_path / name).mkdir()
        commit(tmp_path / name, "0", write(tmp_path / name, "part.parquet", number, 1))
    found = {id: sink.event_row(id, "/tests", "order") for id in places}
    assert {id: row and row.table for id, row in found.items()} == {**places, "e5": None}


def test_a_query_says_how_it_does_with_the_same_words_everywhere() -> None:
    def health(condition: str, **reader: Any) -> tuple[str, str]:
        facts: Any = {"condition": condition, "ready": condition == "Delivering", "reader": ReaderStatus(**reader)}
        found = health_of(TriggerStatus(name="t", broker="b", **facts), {})
        return found.word, found.kind

    assert health("Delivering", state="running") == ("running", "good")
    assert health("ReaderStarting", state="starting") == ("starting", "warn")
    assert health("ReaderNotRunning", state="restarting", error="no space left") == ("restarting", "bad")
    assert health("BrokerNotReady", state="running") == ("not ready", "bad")


def test_data_that_is_hidden_is_hidden_in_rows(shared: Lab) -> None:
    lake = shared.gateway.config.parent / "lake"
    commit(lake, "0", write(lake, "part-0.parquet", 1, 30))
    shared.send({"id": "e7"})
    headers = shared.headers("viewer")
    found = web.get(f"{shared.url}/tables/lake/rows?table=table", headers=headers, verify=False, timeout=60).text
    assert "e30" in found
    assert "(hidden)" in found
    assert "secret" not in found
    assert "acme" not in found
    link = f"{shared.url}/events/row?id=e7&source=/tests&trigger=lake"
    found = web.get(link, headers=headers, verify=False, timeout=60).text
    assert "written by batch 0" in found
    assert "(hidden)" in found
    assert "secret" not in found
    assert "acme" not in found
