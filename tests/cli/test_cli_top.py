"""Rates between two looks at a gateway, and `tidegate top`."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gateway_inspect.cli.top import tables
from gateway_inspect.rates import between, quantile
from gateway_testing.process import GatewayProcess

from gateway_core.contract.status import BOUNDS_S, GatewayStatus
from tests import web

ZEROS = dict.fromkeys(("accepted", "refused", "unrouted", "delivered", "attempts", "retried", "dead_lettered"), 0)


def histogram(**counts: int) -> dict[str, Any]:
    """Durations by the upper bound of their bucket ("le_0.005")."""
    buckets = [0] * (len(BOUNDS_S) + 1)
    for name, count in counts.items():
        buckets[BOUNDS_S.index(float(name.removeprefix("le_").replace("_", ".")))] = count
    return {"buckets": buckets, "sum_s": 1.0}


def entry(name: str, **values: Any) -> dict[str, Any]:
    return {"name": name, "ready": True, "condition": "Fine", **ZEROS, **values}


def status(**sections: list[dict[str, Any]]) -> GatewayStatus:
    return GatewayStatus.read({"version": "1", **sections})


def test_rates_are_the_difference_of_two_looks() -> None:
    before = status(
        brokers=[entry("b", accepted=1000)],
        triggers=[entry("t", broker="b", delivered=400, retried=4)],
        bridges=[entry("x", delivered=5)],
    )
    after = status(
        brokers=[entry("b", accepted=3000)],
        triggers=[
            entry("t", broker="b", delivered=500, retried=5, lag=7, in_flight=2),
            entry("new", broker="b", delivered=8),
        ],
        bridges=[entry("x", delivered=2)],  # it started again
    )
    rates = between(before, after, 2.0)
    assert rates["brokers"][0]["accepted_per_s"] == 1000
    assert [(t["name"], t["delivered_per_s"], t["retried_per_s"]) for t in rates["triggers"]] == [
        ("t", 50, 0.5),
        ("new", 4, 0),
    ]
    assert (rates["triggers"][0]["lag"], rates["triggers"][0]["in_flight"]) == (7, 2)
    assert rates["bridges"][0]["delivered_per_s"] == 1


@pytest.mark.parametrize(("sort", "names"), [("rate", "bca"), ("lag", "acb"), ("name", "abc")])
def test_the_order(sort: str, names: str) -> None:
    triggers = [
        entry("a", broker="", delivered=1, lag=9),
        entry("b", broker="", delivered=9, lag=1),
        entry("c", broker="", delivered=5, lag=5),
    ]
    rates = between(status(triggers=[]), status(triggers=triggers), 1.0, sort)
    assert "".join(t["name"] for t in rates["triggers"]) == names


def test_durations_are_those_since_the_look_before() -> None:
    before = status(triggers=[entry("t", broker="b", attempt=histogram(le_10_0=1000))])
    after = status(triggers=[entry("t", broker="b", attempt=histogram(le_10_0=1000, le_0_005=98, le_1_0=2))])
    (trigger,) = between(before, after, 1.0)["triggers"]
    assert 0.0025 < trigger["p50_s"] < 0.005
    assert 0.75 < trigger["p99_s"] < 1.0
    (trigger,) = between(after, after, 1.0)["triggers"]
    assert (trigger["p50_s"], trigger["p99_s"]) == (None, None)


def test_quantiles_are_drawn_within_their_bucket() -> None:
    even = histogram(le_0_01=100)["buckets"]
    assert quantile(even, 0.5) == pytest.approx(0.0075)
    assert quantile(even, 1.0) == 0.01
    assert quantile([0] * len(BOUNDS_S) + [1], 0.5) == BOUNDS_S[-1]
    assert quantile([], 0.5) is None


READER = {"state": "running", "lag": 7, "lags": {"0": 7}, "batch_s": 0.25, "parts": {}, "stalled_s": 0.0}


def test_readers_have_rates_of_their_own() -> None:
    before = entry("t", broker="b", reader={**READER, "rows": 100, "quarantined": 2})
    after = entry("t", broker="b", reader={**READER, "rows": 300, "quarantined": 3})
    rates = between(status(triggers=[before, entry("u", broker="b", reader=None)]), status(triggers=[after]), 2.0)
    (reader,) = rates["readers"]
    assert (reader["rows_per_s"], reader["quarantined_per_s"], reader["lag"]) == (100, 0.5, 7)
    _, (title, columns, rows) = tables(rates)
    shown = dict(zip(columns, rows[0], strict=True))
    assert (title, shown["rows/s"], shown["last batch"], shown["lag"]) == ("Readers", "100", "250 ms", "7")


def test_the_tables() -> None:
    trigger = entry("t", broker="b", delivered=25, attempt=histogram(le_0_005=1))
    ((title, columns, rows),) = tables(between(status(), status(triggers=[trigger]), 10.0))
    shown = dict(zip(columns, rows[0], strict=True))
    assert (title, shown["delivered/s"], shown["p50"], shown["state"], shown["lag"]) == (
        "Triggers",
        "2.5",
        "3.75 ms",
        "Fine",
        "",
    )


CONFIG = """
brokers: {default: {ingress: [http: {listen: "127.0.0.1:0"}]}}
triggers: {archive: {subscriber: {file: {path: archive.jsonl}}}}
"""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(CONFIG, tmp_path_factory.mktemp("top")) as running:
        yield running


def command(gateway: GatewayProcess, *args: str) -> list[str]:
    return [sys.executable, "-m", "gateway_core.cli", "top", "--data-dir", str(gateway.data_dir), *args]


def send(gateway: GatewayProcess, id: str) -> None:
    headers = {"ce-specversion": "1.0", "ce-id": id, "ce-source": "/s", "ce-type": "t"}
    assert web.post(gateway.ingress(), headers=headers, verify=False).status_code == 202


@pytest.mark.usefixtures("processes")
def test_without_a_terminal_it_is_lines(gateway: GatewayProcess) -> None:
    with subprocess.Popen(
        command(gateway, "--interval", "0.5", "--json"), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        looks: list[dict[str, Any]] = []
        while not looks or not looks[-1]["triggers"][0]["delivered_per_s"]:
            send(gateway, str(len(looks)))
            looks.append(json.loads(process.stdout.readline()))
            assert len(looks) < 50
        process.terminate()
    (broker,) = looks[-1]["brokers"]
    assert (broker["name"], broker["state"]) == ("default", "IngressOpen")
    ran = subprocess.run(
        command(gateway, "--interval", "0.1", "--count", "2"), capture_output=True, text=True, timeout=60
    )
    assert (ran.returncode, ran.stdout.count("ACCEPTED/S"), ran.stdout.count("archive")) == (0, 2, 2)


@pytest.mark.usefixtures("processes")
def test_on_a_terminal_q_ends_it_and_the_terminal_is_as_before(gateway: GatewayProcess, tmp_path: Path) -> None:
    import termios

    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
    process = subprocess.Popen(
        command(gateway, "--interval", "0.2"), stdin=slave, stdout=slave, stderr=slave, env=env, close_fds=True
    )
    shown, deadline = b"", time.monotonic() + 30
    try:
        for wanted, key in ((b"sorts by rate", b"s"), (b"sorts by lag", b"q")):
            while wanted not in shown:
                assert time.monotonic() < deadline, shown
                if select.select([master], [], [], 0.1)[0]:
                    shown += os.read(master, 65_536)
            os.write(master, key)
        while process.poll() is None:  # who does not read holds it up
            assert time.monotonic() < deadline, shown
            if select.select([master], [], [], 0.1)[0]:
                shown += os.read(master, 65_536)
        assert process.returncode == 0
        assert b"archive" in shown
        assert termios.tcgetattr(slave)[3] == before[3]
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(master)
        os.close(slave)
