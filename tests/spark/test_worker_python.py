"""Workers on this machine import PySpark's installed files, not those of Spark's archive."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest
from gateway_spark.worker_python import worker_python

ARCHIVES = sorted((Path(pyspark.__file__).parent / "python/lib").glob("*.zip"))


def ran(python: str, path: list[str]) -> str:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    command = [python, "-c", "import os, pyspark; print(pyspark.__file__, os.environ['PYTHONPATH'])"]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout


@pytest.mark.usefixtures("processes")
def test_it_leaves_out_the_archives_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache of mine"))
    others = [str(tmp_path / "of the user's"), str(tmp_path / "*"), "/x.zip"]
    assert ran(worker_python(), [*map(str, ARCHIVES), *others]).split(" ", 1) == [
        pyspark.__file__,
        f"{os.pathsep.join(others)}\n",
    ]


@pytest.mark.usefixtures("processes")
def test_a_script_that_others_changed_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = Path(worker_python())
    made.write_text("#!/bin/sh\nexit 1\n")
    assert pyspark.__file__ in ran(worker_python(), [str(ARCHIVES[0])])


def test_without_a_cache_it_is_this_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tidegate").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert worker_python() == sys.executable


def test_it_runs_in_the_workers(spark: Any) -> None:
    from pyspark.sql.functions import udf

    place = udf(lambda _: __import__("pyspark").__file__)
    (row,) = spark.range(1).select(place("id").alias("place")).collect()
    assert row.place == pyspark.__file__
