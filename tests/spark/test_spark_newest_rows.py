"""The newest rows of real tables, read without Spark, as the console shows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from gateway_spark.tables.newest_rows import newest, tables

pytestmark = [pytest.mark.spec("CO-60"), pytest.mark.timeout(600)]


@pytest.mark.area(name="spark_more")
@pytest.mark.parametrize("format", ["parquet", pytest.param("delta", marks=pytest.mark.full)])
def test_rows_that_spark_wrote_are_read(
    spark: Any, log: Any, sink: Callable[..., Any], event: Callable[..., Any], format: str
) -> None:
    log.append(
        event("good", b'{"n": 1}', json_data=True, tenant="acme"),
        event("bad", b"no JSON"),
    )
    runner = sink({"data_schema": "n INT", "format": format, "partition_by": ["date"]})
    runner.caught_up()
    found = newest(str(runner.table), format, 5)
    assert [(row["id"], row["data"], dict(row["extensions"])) for row in found.rows] == [
        ("good", {"n": 1}, {"tenant": "acme"})
    ]
    rejected = newest(tables(str(runner.table), "")["quarantine"], format, 5).rows
    assert [(row["id"], row["reason"]) for row in rejected] == [("bad", "data is not JSON")]
