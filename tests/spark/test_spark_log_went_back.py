"""A query whose log went back refuses to go on, says what to do, and misses nothing when that is done."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from gateway_log.shard import Shard, sequence_rows
from gateway_log.writer import Unit
from typer.testing import CliRunner

from gateway_core.contract.event import Event


def append(folder: Path, *ids: str) -> None:
    """A run of a gateway that takes these events."""
    folder.mkdir(parents=True, exist_ok=True)
    shard = Shard(folder, 0, "full")
    events = [Event({"specversion": "1.0", "id": id, "source": "/s", "type": "t"}, id.encode()) for id in ids]
    texts = [f'{{"specversion":"1.0","id":"{id}","source":"/s","type":"t"}}'.encode() for id in ids]
    shard.write(sequence_rows(0, shard.next, [Unit(events, texts, 1, 1, lambda e: None)]), None)
    shard.close()


def table(spark: Any, folder: Path, log: Path) -> list[str]:
    """Runs the query until the table has all that is there."""
    stream = spark.readStream.format("tidegate").option("location", str(log)).load().select("id", "position")
    writer = stream.writeStream.format("parquet").option("checkpointLocation", str(folder / "c"))
    assert writer.trigger(availableNow=True).start(str(folder / "t")).awaitTermination(60)
    return sorted(row.id for row in spark.read.parquet(str(folder / "t")).collect())


@pytest.mark.spec("SAFE-52")
def test_a_query_goes_on_with_a_restored_log_only_knowingly(spark: Any, tmp_path: Path) -> None:
    from gateway_spark.commands import app
    from pyspark.errors import StreamingQueryException

    log = tmp_path / "log"
    append(log, "a1", "a2", "a3")
    assert table(spark, tmp_path, log) == ["a1", "a2", "a3"]
    shutil.copytree(log, tmp_path / "backup")
    append(log, "b1", "b2")
    assert table(spark, tmp_path, log) == ["a1", "a2", "a3", "b1", "b2"]

    shutil.rmtree(log)
    shutil.copytree(tmp_path / "backup", log)
    append(log, *(f"c{n}" for n in range(1, 6)))  # more than the query has read
    with pytest.raises(StreamingQueryException) as e:
        table(spark, tmp_path, log)
    said = str(e.value)
    assert "shard 0 (read up to 6, the same only before 4)" in said
    assert "tidegate spark rejoin" in said

    command = ["rejoin", str(tmp_path / "c"), "--location", str(log)]
    tried = CliRunner().invoke(app, [*command, "--dry-run"])
    assert (tried.exit_code, tried.output) == (0, "shard 0: continues at 4; it was read up to 6\n")
    with pytest.raises(StreamingQueryException):
        table(spark, tmp_path, log)
    assert CliRunner().invoke(app, command).exit_code == 0
    assert table(spark, tmp_path, log) == ["a1", "a2", "a3", "b1", "b2", "c1", "c2", "c3", "c4", "c5"]
    again = CliRunner().invoke(app, command)
    assert (again.exit_code, again.output) == (0, "nothing to do: the query matches this log\n")


@pytest.mark.spec("SAFE-52")
@pytest.mark.area(name="spark_more")
def test_a_checkpoint_without_epochs_is_taken_over(spark: Any, tmp_path: Path) -> None:
    log = tmp_path / "log"
    append(log, "a1", "a2")
    table(spark, tmp_path, log)
    offsets = tmp_path / "c" / "offsets" / "0"
    lines = offsets.read_text().splitlines()
    assert "epochs" in lines[2]
    offsets.write_text("\n".join([*lines[:2], '{"0": 3}']))  # as an older version wrote it
    offsets.with_name(".0.crc").unlink()
    append(log, "a3")
    assert table(spark, tmp_path, log) == ["a1", "a2", "a3"]
