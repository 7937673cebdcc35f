"""`tidegate spark submit` and `tidegate spark wheel`: a trigger's table, filled by spark-submit on a real cluster."""

from __future__ import annotations

import base64
import hashlib
import os
import signal
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gateway_java import java
from gateway_java.kafka import KafkaBroker
from gateway_spark.submit.standalone import StandaloneCluster
from gateway_spark.submit.wheel import write_wheel

TIDEGATE = [sys.executable, "-m", "gateway_core.cli"]
QUICK = " ".join(java.QUICK)
EVENTS = 300
CONFIG = """
brokers:
  default:
    channel:
      kafka: {{bootstrap: "{bootstrap}", topic: {topic}, partitions: 2}}
  kept: {{}}
triggers:
  table:
    start: earliest
    subscriber:
      spark:
        path: {folder}/table
        format: {format}
        data_schema: n INT
        runs: submitted
        conf:
          spark.executor.memory: 512m
          spark.driver.extraJavaOptions: "{quick}"
          spark.executor.extraJavaOptions: "{quick}"
  ours:
    subscriber:
      spark: {{path: {folder}/ours}}
  logged:
    broker: kept
    subscriber:
      spark: {{path: {folder}/logged, runs: submitted}}
  plain:
    subscriber: http://127.0.0.1:1/
"""


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., Path]:
    """Writes the config of these tests."""

    def write(bootstrap: str = "127.0.0.1:1", topic: str = "t", format: str = "parquet") -> Path:
        file = tmp_path / "tidegate.yaml"
        file.write_text(CONFIG.format(bootstrap=bootstrap, topic=topic, folder=tmp_path, format=format, quick=QUICK))
        return file

    return write


def submit(*arguments: str | Path, cwd: Path, **options: Any) -> subprocess.Popen[str]:
    command = [*TIDEGATE, "spark", "submit", *map(str, arguments)]
    return subprocess.Popen(command, cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


@pytest.mark.parametrize(
    ("trigger", "words"),
    [
        ("ours", "set `runs: submitted` there"),
        ("logged", "use the channel kafka"),
        ("plain", "its subscriber is http, not spark"),
        ("tabel", "there is no trigger 'tabel'; there are: table, ours, logged, plain"),
    ],
)
@pytest.mark.usefixtures("processes")
def test_what_can_not_be_submitted_is_refused_with_the_remedy(
    trigger: str, words: str, config: Callable[..., Path], tmp_path: Path
) -> None:
    process = submit(trigger, "--config", config(), "--master", "local[1]", cwd=tmp_path)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 3
    assert words in said


@pytest.mark.slow
def test_the_wheel_is_sound_and_the_same_each_time(tmp_path: Path) -> None:
    path = write_wheel(tmp_path / "new")
    assert path.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        (record,) = [n for n in names if n.endswith(".dist-info/RECORD")]
        info = record.removesuffix("RECORD")
        lines = [line.split(",") for line in wheel.read(record).decode().splitlines()]
        assert [line[0] for line in lines] == names, "every file is recorded"
        for name, digest, size in lines[:-1]:
            data = wheel.read(name)
            assert int(size) == len(data)
            assert digest == "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        points = wheel.read(f"{info}entry_points.txt").decode()
        assert {"METADATA", "WHEEL"} <= {n.removeprefix(info) for n in names}
    assert not [n for n in names if "__pycache__" in n or n.endswith((".so", ".pyd"))], "pure Python, and no more"
    assert "spark = gateway_spark.plugin" in points
    assert "http" not in points, "plugins that are not in the wheel are not promised"
    assert write_wheel(tmp_path / "again").read_bytes() == path.read_bytes()


@pytest.mark.usefixtures("processes")
def test_a_cluster_needs_nothing_but_the_wheel_for_filters(tmp_path: Path) -> None:
    code = (
        "import gateway_core, gateway_spark.source.filters as f;"
        "assert '+spark' in gateway_core.__version__ and '.whl' in gateway_core.__file__;"
        "test = f.compiled('[{\"cesql\": \"type = \\'a\\'\"}]', '');"
        "print([test((1, 0, 0, None, '', b''), {'type': t}) for t in 'ab'])"
    )
    env = {**os.environ, "PYTHONPATH": str(write_wheel(tmp_path))}
    ran = subprocess.run([sys.executable, "-c", code], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert ran.stdout == "[True, False]\n", ran.stderr


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """A Python without any installed package: what it imports beside its own library, Spark has brought."""
    script = tmp_path / "bare-python"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    script.chmod(0o755)
    return script


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[StandaloneCluster]:
    with StandaloneCluster(tmp_path / "cluster") as cluster:
        yield cluster


@pytest.mark.full
@pytest.mark.timeout(300)
def test_a_submitted_job_fills_the_table_from_kafka_with_nothing_but_pyspark(
    kafka: KafkaBroker,
    cluster: StandaloneCluster,
    bare_python: Path,
    config: Callable[..., Path],
    tmp_path: Path,
    wait: Callable[..., Any],
    spark: Any,
) -> None:
    topic = "submitted"
    kafka.create_topic(topic, 2)
    write(kafka.bootstrap, topic, range(EVENTS))
    file = config(kafka.bootstrap, topic)
    before = set(Path("/tmp").glob("tidegate-submit-*"))
    arguments = ["table", "--config", file, "--master", cluster.url, "--data-dir", tmp_path / "data"]
    more = ["--", "--conf", f"spark.pyspark.driver.python={bare_python}"]
    job = submit(*arguments, *more, cwd=tmp_path, env={**os.environ, "PYSPARK_PYTHON": str(bare_python)})
    assert job.stdout is not None
    lines: list[str] = []
    rows = 0
    while rows < EVENTS:
        line = job.stdout.readline()
        assert line, "".join(lines) + (job.stderr.read() if job.stderr else "")
        lines.append(line)
        if " batch=" in line:
            rows += int(line.split(" rows=")[1].split()[0])
    files = [f for folder in set(Path("/tmp").glob("tidegate-submit-*")) - before for f in folder.glob("*")]
    assert {oct(f.stat().st_mode & 0o077) for f in files if f.suffix in (".json", ".conf")} == {"0o0"}
    assert len(cluster.facts()["activeapps"]) == 1
    job.send_signal(signal.SIGTERM)
    out, err = job.communicate(timeout=120)
    assert job.returncode == 0, err
    assert "table: stopped" in out
    found = spark.read.parquet(str(tmp_path / "table")).select("id", "data.n").collect()
    assert Counter((r.id, r.n) for r in found) == Counter((str(n), n) for n in range(EVENTS))
    assert not [f for f in files if f.exists()], "nothing secret stays behind"
    wait(lambda: not cluster.facts()["activeapps"], "the application is gone")


def write(bootstrap: str, topic: str, numbers: range) -> None:
    """Writes events as a gateway's channel does: in binary content mode."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap})
    for n in numbers:
        attributes = {"specversion": "1.0", "id": str(n), "source": "/test", "type": "made"}
        headers = [(f"ce_{name}", value.encode()) for name, value in attributes.items()]
        headers.append(("content-type", b"application/json"))
        producer.produce(topic, b'{"n": %d}' % n, str(n % 7), headers=headers)
    assert producer.flush(60) == 0
