"""Rows of the log that are not as they were written never come into a table."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.spec("SAFE-45")]


@pytest.mark.full
@pytest.mark.usefixtures("own_spark")
def test_an_altered_row_is_left_out_and_said(log: Any, event: Any, caplog: pytest.LogCaptureFixture) -> None:
    from gateway_spark.source.reading import Range, Reading
    from pyspark.sql.types import StringType, StructField, StructType

    log.append(*(event(str(n), b"<%03d>" % n) for n in range(1, 6)))
    log.close()
    file = log.folder / "shard-000.db"
    file.write_bytes(file.read_bytes().replace(b"<003>", b"<013>"))
    reading = Reading({"location": str(log.folder)}, StructType([StructField("id", StringType())]))
    found = [id for batch in reading.read(Range(0, 1, 6)) for id in batch.column("id").to_pylist()]
    assert found == ["1", "2", "4", "5"]
    assert "shard-000.db: event 3 can't be read: its checksum is another one" in caplog.text
