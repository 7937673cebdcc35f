"""The Python of the pages about Spark runs as it stands there: one page after the other, each from top to bottom."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gateway_testing import GatewayProcess

from tests.docs.blocks import of_page

pytestmark = [pytest.mark.timeout(300)]

GATEWAY = """
brokers: {default: {ingress: [{http: {listen: "127.0.0.1:0"}}]}}
triggers: {}
"""
FLIGHTS = [("AA", 7), ("AA", 90), ("DL", 61), ("DL", -3)]


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    folder = tmp_path / "gateway"
    folder.mkdir()
    with GatewayProcess(GATEWAY, folder) as gateway:
        yield gateway


@pytest.fixture
def at_home(spark: Any, tmp_path: Path, make_log: Callable[[Path], Any], event: Callable[..., Any]) -> Path:
    """A folder with what the pages take for granted: a broker's log and two tables."""
    log = make_log(tmp_path / "tidegate-data" / "log" / "default")
    kind = {"datacontenttype": "application/json", "type": "flight.departed", "time": "2026-01-02T03:04:05Z"}
    log.append(
        *(
            event(str(n), json.dumps({"carrier": c, "dep_delay": d}).encode(), **kind)
            for n, (c, d) in enumerate(FLIGHTS)
        )
    )
    rows = [(str(n), (c, d), "0af7651916cd43dd8448eb211c80319c") for n, (c, d) in enumerate(FLIGHTS)]
    frame = spark.createDataFrame(rows, "id string, data struct<carrier: string, dep_delay: int>, trace_id string")
    frame.write.parquet(str(tmp_path / "rows"))
    for table in ("flights", "orders"):  # as a sink writes them: from a stream
        writing = spark.readStream.schema(frame.schema).parquet(str(tmp_path / "rows")).writeStream.format("parquet")
        writing = writing.option("checkpointLocation", str(tmp_path / f"{table}.checkpoint")).trigger(availableNow=True)
        assert writing.start(str(tmp_path / "tables" / table)).awaitTermination(60)
    return tmp_path


def run(page: str, names: dict[str, Any], home: Path, ingress: str = "") -> dict[str, Any]:
    """What the names of a page stand for at its end. Its folders are in `home`: the JVM has its own idea of where."""
    for block in of_page(page, "python"):
        text = re.sub(r'"(tables|tidegate-data|checkpoints)/', rf'"{home}/\1/', block.text)
        text = text.replace("http://127.0.0.1:8080/", ingress)
        exec(compile(text, block.name, "exec"), names)
    return names


@pytest.mark.full
def test_the_page_on_pyspark(at_home: Path, gateway: GatewayProcess) -> None:
    names: dict[str, Any] = {}
    try:
        run("docs/howto/pyspark.md", names, at_home, gateway.ingress())
        assert names["events"].count() == len(FLIGHTS)
        assert names["live"].isStreaming
        assert names["topic"].isStreaming
        assert {r.id for r in names["alarms"].collect()} == {"1", "2"}
        gateway.wait_until(lambda: gateway.status()["brokers"][0]["accepted"] == 4, 60, "two batches of two alarms")
    finally:
        if "query" in names:
            names["query"].stop()


PAGES = ("docs/howto/read-the-table.md", "docs/howto/tracing.md", "docs/reference/spark-tables.md")


def test_the_pages_that_read(at_home: Path, spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for page in PAGES:
        names = run(page, {"spark": spark}, at_home)
        if "flights" in names:
            assert names["flights"].count() == len(FLIGHTS), page
        if "live" in names:
            assert names["live"].isStreaming, page
            assert names["events"].count() == len(FLIGHTS), page
        if page.endswith("tracing.md"):
            assert capsys.readouterr().out.count("0af7651916cd") == len(FLIGHTS), page
