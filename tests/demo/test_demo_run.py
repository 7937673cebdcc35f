"""The demo as a user runs it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gateway_demo import accounting, mqtt, sensors
from gateway_demo.sender import Ledger
from gateway_dev.servers import Server
from gateway_java import java
from gateway_testing import GatewayProcess
from ruamel.yaml import YAML

from tests import web
from tests.processes import alive, descendants

CONFIGS = Path(__file__).parents[2] / "configs"


def demo(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gateway_core.cli", "demo", *arguments]
    # its JVMs are there for seconds: they should not spend them on compiling
    quick = {**os.environ, "JDK_JAVA_OPTIONS": " ".join(java.QUICK)}
    return subprocess.run(command, cwd=cwd, env=quick, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def begun(command: list[str], cwd: Path, text: str) -> tuple[subprocess.Popen[str], str]:
    """A demo that runs, in a process group of its own, and what it has said up to this text."""
    process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    said = ""
    while text not in said:
        line = process.stdout.readline()
        assert line, said
        said += line
    return process, said


@pytest.mark.area(name="demo")
@pytest.mark.timeout(900)
@pytest.mark.spec("CARD-03", "CARD-04")
@pytest.mark.usefixtures("own_spark")
def test_the_demo_accounts_for_every_event(tmp_path: Path) -> None:
    done = demo("--events", "1500", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1,500 sent = " in done.stdout
    assert "Nothing is missing." in done.stdout
    assert "MISSING" not in done.stdout
    assert "3 webhooks sent again = 3 answered as duplicates, 3 stored once  ok" in done.stdout
    assert re.search(r"([\d,]+) past events = \1 selected = \1 replayed into the file  ok", done.stdout)
    assert re.search(r"([1-9][\d,]*) matching = \1 delivered 3 s later, 0 too early  ok", done.stdout)
    assert "Delay by carrier" in done.stdout
    out = tmp_path / "out"
    assert (out / "delays.png").read_bytes().startswith(b"\x89PNG")
    assert list((out / "table").glob("*.parquet"))
    assert (out / "undelivered.jsonl").stat().st_size > 0
    assert not (out / "data").exists(), "without --keep the gateway's data goes"
    assert "look on in the console: http://127.0.0.1:" in done.stdout


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.spec("CO-93")
@pytest.mark.usefixtures("own_spark")
def test_a_demo_that_is_kept_leaves_its_console_open(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gateway_core.cli", "demo", "--keep", "--events", "1500", "--out", "out"]
    process, said = begun(command, tmp_path, "the gateway keeps running")
    assert "Nothing is missing." in said
    link = re.findall(r"look on in the console: (\S+)", said)[-1]
    with web.client(follow_redirects=True) as browser:
        assert "Log out" in browser.get(link).text
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0, out
    assert (tmp_path / "out" / "data").exists()


@pytest.mark.full
@pytest.mark.timeout(500)
@pytest.mark.spec("CARD-03", "CARD-04")
@pytest.mark.usefixtures("own_spark", "own_kafka")
def test_the_demo_accounts_for_every_event_on_kafka_and_a_spark_cluster(tmp_path: Path) -> None:
    done = demo("--kafka", "--events", "2000", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the Spark cluster is spark://127.0.0.1:" in done.stdout
    assert "2,000 sent = " in done.stdout
    assert "Nothing is missing." in done.stdout
    assert "MISSING" not in done.stdout
    out = tmp_path / "out"
    assert list((out / "table" / "_delta_log").glob("*.json")), "a Delta table"
    assert not [f for f in ("data", "kafka", "spark") if (out / f).exists()]


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("own_spark", "own_kafka")
def test_ctrl_c_ends_the_demo_and_all_that_it_has_started(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gateway_core.cli", "demo", "--kafka", "--events", "200", "--out", "out"]
    process, _ = begun(command, tmp_path, "streaming flights")
    started = descendants(process.pid)
    assert len(started) >= 5, "Kafka, a master, two workers, a gateway"
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 130, out
    assert "Stopped." in out
    end = time.monotonic() + 30  # those that were killed last may still be about to go
    while left := [pid for pid in started if alive(pid)]:
        assert time.monotonic() < end, left
        time.sleep(0.1)


@pytest.mark.area(name="demo")
@pytest.mark.timeout(900)
@pytest.mark.spec("DEV-04")
@pytest.mark.usefixtures("own_spark", "mqtt_server")  # the demo starts a server of its own
def test_the_demo_accounts_for_every_reading_over_mqtt(tmp_path: Path) -> None:
    done = demo("--mqtt", "--events", "1000", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1,000 published = 1,000 acknowledged  ok" in done.stdout
    assert "Weather by airport" in done.stdout
    assert "look on in the console: http://127.0.0.1:" in done.stdout
    assert "Nothing is missing." in done.stdout
    assert "MISSING" not in done.stdout
    assert list((tmp_path / "out" / "table").glob("*.parquet"))
    assert not [f for f in ("data", "mqtt") if (tmp_path / "out" / f).exists()]


@pytest.mark.spec("DEV-04")
@pytest.mark.usefixtures("processes")
def test_each_reading_is_accounted_for_without_spark(mqtt_server: Server, tmp_path: Path) -> None:
    """The demo's gateway, with a file in place of the table."""
    events, out = list(sensors.readings(300)), tmp_path / "rows.jsonl"
    config = YAML(typ="safe").load(CONFIGS / "demo-mqtt.yaml")
    config["triggers"]["table"]["subscriber"] = {"file": {"path": str(out)}}
    (tmp_path / "gateway").mkdir()
    variables = {"DEMO_MQTT": f"127.0.0.1:{mqtt_server.port}"}
    with (
        GatewayProcess(json.dumps(config), tmp_path / "gateway", variables) as gateway,
        mqtt.Listener(mqtt_server.port) as listener,
        mqtt.Station(mqtt_server.port) as station,
    ):
        for event in events:
            station.publish(event)
        gateway.wait_until(lambda: not station.open, what="the server to acknowledge")
        gateway.wait_until(lambda: gateway.drained("frost", "table"), what="all readings")
        gateway.wait_until(lambda: len(accounting.ids_in(out)) >= len(events), what="all readings in the file")
        ledger = Ledger()
        ledger.accepted = station.acknowledged
        frost = ledger.of_type(sensors.FROST)
        listener.wait(sorted(frost))
    assert frost, "there are alarms to see"
    assert listener.received.keys() == frost
    assert all(station.acknowledged[id].digest == digest for id, digest in listener.received.items())
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    rows = [(line["id"], station.acknowledged[line["id"]].digest, 0, n) for n, line in enumerate(lines)]
    checks = [*accounting.table(ledger, accounting.TableFacts(rows))]
    assert [check.text for check in checks if not check.ok] == []
    assert [line["data"] for line in sorted(lines, key=lambda line: str(line["id"]))] == [
        json.loads(event.data) for event in sorted(events, key=lambda event: event.id)
    ]


@pytest.mark.area(name="demo")
@pytest.mark.usefixtures("processes")
def test_the_demo_needs_an_mqtt_server(tmp_path: Path) -> None:
    code = "from gateway_dev import program; program.FOLDERS = (); from gateway_core.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "demo", "--mqtt", "--events", "100", "--out", "out"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)},
    )
    assert done.returncode == 1
    assert "The demo failed: mosquitto is needed and there is none on this machine" in done.stdout
    assert "apt-get install mosquitto" in done.stdout


def test_the_demos_configs_differ_in_what_the_log_alone_can_do_and_in_master_and_format() -> None:
    one, many = (YAML(typ="safe").load(CONFIGS / name) for name in ("demo.yaml", "demo-kafka.yaml"))
    assert set(differences(one, many)) == {
        "brokers.default.channel",
        "brokers.default.deduplicate",
        "triggers.diverted",
        "triggers.table.subscriber.spark.format",
        "triggers.table.subscriber.spark.master",
    }


def differences(one: Any, other: Any, place: str = "") -> Iterator[str]:
    """The places where two documents differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one.keys() | other.keys():
            yield from differences(one.get(key), other.get(key), f"{place}.{key}".lstrip("."))
    elif one != other:
        yield place


@pytest.mark.usefixtures("processes")
def test_a_folder_of_someone_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("five years")
    done = demo("--out", "out", cwd=tmp_path)
    assert done.returncode == 1
    assert "use another folder" in done.stdout
    assert (tmp_path / "out" / "thesis.txt").read_text() == "five years"


@pytest.mark.area(name="demo")
@pytest.mark.usefixtures("processes")
def test_a_gateway_that_can_not_start_is_told_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("brokers: {default: {ingres: []}}\n")
    done = demo("--events", "100", "--out", "out", "--config", "bad.yaml", cwd=tmp_path)
    assert done.returncode == 1
    assert "the gateway ended early" in done.stdout
    assert "ingress" in done.stdout, "the end of the gateway's log, with the remedy"


@pytest.mark.usefixtures("processes")
def test_a_missing_library_is_named_with_the_extra_that_brings_it(tmp_path: Path) -> None:
    hide = "import sys; sys.modules['matplotlib'] = None; sys.argv = ['tidegate', 'demo']"
    code = f"{hide}; from gateway_core.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "The demo needs matplotlib: install tidegate[demo]." in done.stdout
