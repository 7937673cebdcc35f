"""A sink whose query others run (`runs: submitted`): it starts nothing, and follows the query's checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway_spark import session_conf
from gateway_spark.job import Job

from gateway_core.config.registry import Registry
from gateway_core.contract.clock import SystemClock
from gateway_core.contract.component import BuildContext, SinkRef

pytestmark = pytest.mark.anyio


class Feed:
    name = "table"
    location = "log"
    options: Mapping[str, Any] = {"kind": "log"}
    start: Mapping[str, int] = {"0": 1}

    def __init__(self) -> None:
        self.advanced: list[Mapping[str, int]] = []
        self.news = anyio.Event()

    def advance(self, offsets: Mapping[str, int]) -> None:
        self.advanced.append(offsets)
        self.news.set()

    def ends(self) -> Mapping[str, int]:
        return {"0": 11}


def commit(checkpoint: Path, number: int, offsets: str) -> None:
    for folder in ("offsets", "commits"):
        (checkpoint / folder).mkdir(parents=True, exist_ok=True)
    (checkpoint / "offsets" / str(number)).write_text(f"v1\n{{}}\n{offsets}")
    (checkpoint / "commits" / str(number)).write_text("v1\n{}")


@pytest.mark.usefixtures("real_time")
async def test_it_follows_the_checkpoint_and_starts_nothing(tmp_path: Path) -> None:
    context = BuildContext("triggers.table", tmp_path, SystemClock(), Registry.installed(), trigger="table")
    config = {"path": "/tables/t", "runs": "submitted", "checkpoint": str(tmp_path / "checkpoint")}
    sink = Registry.installed().build(SinkRef("spark", config), context)
    feed = Feed()
    commit(tmp_path / "checkpoint", 0, '{"0": 4}')
    async with anyio.create_task_group() as tasks:
        await sink.start_reading(feed, tasks)
        with anyio.fail_after(60):
            await feed.news.wait()
            assert sink.state()["lag"] == 7
            feed.news = anyio.Event()
            commit(tmp_path / "checkpoint", 1, '{"0": 9}')
            await feed.news.wait()
        state = sink.state()
        assert state["lag"] == 2
        assert (state["state"], state["pid"], state["error"]) == ("submitted", None, None)
        await sink.stop()
    assert feed.advanced == [{"0": 4}, {"0": 9}], "retention may pass what the table has"
    assert not (tmp_path / "spark").exists()


@pytest.mark.parametrize(
    ("master", "here"),
    [
        ("local[2]", True),
        ("local", True),
        ("spark://127.0.0.1:7077", True),
        ("spark://localhost:7077", True),
        ("spark://head.example:7077", False),
        ("yarn", False),
        ("k8s://https://127.0.0.1:6443", False),
    ],
)
def test_only_what_runs_here_shows_its_interface(master: str, here: bool) -> None:
    job = Job({}, "/t", "/c", "/h", master=master)
    conf = session_conf.conf_of(job)
    assert (conf["spark.ui.enabled"], conf["spark.ui.port"]) == (str(here).lower(), "0")
    wanted = {"spark.ui.enabled": "true"}
    assert session_conf.conf_of(Job({}, "/t", "/c", "/h", master=master, conf=wanted))["spark.ui.enabled"] == "true"
