"""Tables that a gateway's Spark fills on a standalone cluster: a master and two workers, real ones, on loopback."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gateway_java import java
from gateway_spark.submit.standalone import StandaloneCluster

from tests.processes import alive

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("own_spark"), pytest.mark.timeout(300)]

QUICK = " ".join(java.QUICK)
EXECUTORS = {"spark.executor.memory": "512m", "spark.executor.extraJavaOptions": QUICK}

PARENT = """
import sys, time
from pathlib import Path
from gateway_spark.submit.standalone import StandaloneCluster
cluster = StandaloneCluster(Path(sys.argv[1]), workers=1)
cluster.start()
print(*cluster.pids, flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with StandaloneCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def on_cluster(cluster: StandaloneCluster, quick: dict[str, str]) -> dict[str, Any]:
    """The sink's options for this cluster."""
    return {"master": cluster.url, "conf": {**quick, **EXECUTORS}}


@pytest.fixture
def quick() -> dict[str, str]:
    return {"spark.driver.extraJavaOptions": QUICK, "spark.sql.shuffle.partitions": "2"}


def test_a_log_is_read_by_the_workers_and_the_table_is_the_ledger(
    sink: Callable[..., Any],
    log: Any,
    event: Callable[..., Any],
    cluster: StandaloneCluster,
    on_cluster: dict[str, Any],
    spark: Any,
) -> None:
    for shard in (0, 1):
        kinds = ("wanted", "other")
        log.append(*[event(f"{shard}-{n}", type=kinds[n % 2]) for n in range(600)], shard=shard)
    # a filter that a worker evaluates in Python, with what the wheel brought
    runner = sink(on_cluster, options={"filters": [{"cesql": "type = 'wanted'"}]})
    runner.caught_up()
    (app,) = cluster.facts()["activeapps"]
    assert app["cores"] == 2, "both workers have an executor"
    log.append(*[event(f"later-{n}", type="wanted") for n in range(10)])
    runner.wait_for("the later events", lambda s: s["offsets"] == {"0": 611, "1": 601})
    runner.stop()
    rows = spark.read.parquet(str(runner.table)).select("id").collect()
    wanted = [f"{s}-{n}" for s in (0, 1) for n in range(600) if n % 2 == 0] + [f"later-{n}" for n in range(10)]
    assert Counter(r.id for r in rows) == Counter(wanted)


def test_a_cluster_dies_with_the_process_that_started_it(tmp_path: Path, wait: Callable[..., Any]) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 2
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    wait(lambda: not any(map(alive, pids)), "master and worker are gone")
