"""Fixtures of the Spark tests: one session for all of them, logs to read, and a sink that runs in its own process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from gateway_java import java
from gateway_log.checksum import checksum
from gateway_log.reader import shard_file
from gateway_log.schema import open_shard

from gateway_core.contract.event import Event, position_of

RUNNER = Path(__file__).with_name("run_sink.py")
LIMIT_S = 180.0
# a JVM that is there for seconds should not spend them on compiling
QUICK = {
    "spark.driver.extraJavaOptions": " ".join(java.QUICK),
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A local session with the data source registered. Starting one takes seconds, so all tests share it."""
    from gateway_spark import session

    spark = session(delta=True, kafka=True, conf=QUICK)
    process = spark.sparkContext._gateway.proc
    yield spark
    spark.stop()
    process.stdin.close()
    process.wait()


class Log:
    """A log on disk, written as the log plugin writes it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self._open: dict[int, Any] = {}
        self._next: dict[int, int] = {}

    def append(self, *events: Event, shard: int = 0) -> None:
        """Commits these events together."""
        if shard not in self._open:
            self._open[shard] = open_shard(shard_file(self.folder, shard), "normal")
            (last,) = self._open[shard].execute("SELECT coalesce(max(sequence), 0) FROM events").fetchone()
            self._next[shard] = last + 1
        write = self._open[shard].execute
        write("BEGIN")
        for e in events:
            text = msgspec.json.encode(e.attributes)
            n = self._next[shard]
            self._next[shard] += 1
            total = checksum(position_of(shard, n), e.received_ns, int(e.json_data), e.key, text, e.data)
            row = (n, e.received_ns, int(e.json_data), e.key, text.decode(), e.data, total)
            write("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        write("COMMIT")

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(tmp_path / "log")
    yield log
    log.close()


@pytest.fixture
def make_log() -> Iterator[Callable[[Path], Log]]:
    """Makes logs in folders of the test's choice."""
    made: list[Log] = []

    def make(folder: Path) -> Log:
        made.append(Log(folder))
        return made[-1]

    yield make
    for log in made:
        log.close()


@pytest.fixture
def event() -> Callable[..., Event]:
    """Makes an event that is valid; arguments set its attributes, `data` and the rest."""

    def make(id: str = "1", data: bytes | None = b"{}", **attributes: Any) -> Event:
        known = {k: attributes.pop(k) for k in ("json_data", "key", "received_ns") if k in attributes}
        base = {"specversion": "1.0", "id": id, "source": "/test", "type": "made"}
        return Event({**base, **attributes}, data, **known)

    return make


def wait_until(condition: Callable[[], Any], what: str, limit_s: float = LIMIT_S) -> Any:
    end = time.monotonic() + limit_s
    while not (value := condition()):
        assert time.monotonic() < end, f"not within {limit_s:g} s: {what}"
        time.sleep(0.05)
    return value


@pytest.fixture
def wait() -> Callable[..., Any]:
    """`wait(condition, what)` returns the condition's value once it is true."""
    return wait_until


class Runner:
    """A process that has a Spark sink as a gateway would, and writes its state to a file."""

    def __init__(self, folder: Path, log: Log, config: dict[str, Any], **feed: Any) -> None:
        self.folder = folder
        self.table = folder / "table"
        self._state = folder / "state.json"
        job = {"log": str(log.folder), "data_dir": str(folder / "data"), "state": str(self._state), **feed}
        job["config"] = {"path": str(self.table), "trigger_interval_s": 0.1, "conf": QUICK, **config}
        self._command = [sys.executable, str(RUNNER), json.dumps(job)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._state.unlink(missing_ok=True)
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE)

    def state(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self._state.read_bytes())
        except FileNotFoundError:
            found = {"state": "none", "lag": None, "restarts": 0, "error": None, "advanced": []}
        return found

    def wait_for(self, what: str, condition: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """The state, once the condition holds for it."""
        seen: dict[str, Any] = {}

        def now() -> bool:
            nonlocal seen
            seen = self.state()
            return bool(condition(seen))

        try:
            wait_until(now, what)
        except AssertionError as e:
            raise AssertionError(f"{e}; the last state was {seen}") from None
        return seen

    def caught_up(self) -> dict[str, Any]:
        return self.wait_for("no lag", lambda s: s["state"] == "running" and s["lag"] == 0)

    def kill(self) -> None:
        """Kills the process that has the sink, as `kill -9` of a gateway does."""
        assert self._process is not None
        self._process.kill()
        self._gone()

    def kill_part(self, part: str) -> None:
        """Kills the "driver" (Python) or the "jvm" that work for the sink."""
        lock = json.loads((self.folder / "data/spark/made/checkpoint.lock").read_bytes())
        os.kill(lock[part][0], signal.SIGKILL)

    def stop(self) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(60)
            self._gone()

    def _gone(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.wait()
        self._process.stdin.close()
        self._process = None


@pytest.fixture
def sink(own_spark: None, tmp_path: Path, log: Log) -> Iterator[Callable[..., Runner]]:
    """Makes a sink over the log: `sink(config, options={...})`; it is started, and stopped at the end."""
    made: list[Runner] = []

    def make(config: dict[str, Any] | None = None, **feed: Any) -> Runner:
        runner = Runner(tmp_path, log, config or {}, **feed)
        made.append(runner)
        runner.start()
        return runner

    yield make
    for runner in made:
        runner.stop()
