"""A Spark standalone cluster on this machine, as child processes: for tests, and to try a cluster."""

from __future__ import annotations

import json
import os
import time
import urllib.request
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gateway_java import java
from gateway_java.child import Child
from gateway_java.ports import free_ports

from gateway_core.contract.errors import MissingExtra, StartError

_POLL_S = 0.05
_STOP_S = 10.0
_LOGGING = Path(__file__).parent.with_name("log4j2.properties")
_OPTIONS = (
    *("-Xmx256m", *java.QUICK, "-Xshare:auto", "-Duser.timezone=UTC"),
    *("--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED"),
    *("--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/java.util=ALL-UNNAMED"),
)


class StandaloneCluster:
    """A master and some workers on 127.0.0.1 only. All of them, including executors, die with the process that started
    them.

    `folder` holds their logs and the working files of executors; `cores` and `memory` are those of each worker.
    """

    def __init__(self, folder: Path, workers: int = 2, cores: int = 1, memory: str = "1g") -> None:
        self.folder = folder.absolute()
        self._count = workers
        self._cores = cores
        self._memory = memory
        self._port, self._ui = free_ports(2)
        self._master: Child | None = None
        self._workers: list[Child] = []

    @property
    def url(self) -> str:
        """The `master` of Spark sessions: `spark://127.0.0.1:PORT`."""
        return f"spark://127.0.0.1:{self._port}"

    @property
    def ui(self) -> str:
        """The master's web interface."""
        return f"http://127.0.0.1:{self._ui}"

    @property
    def pids(self) -> list[int]:
        """The running processes: the master first, then the workers."""
        return [c.pid for c in (self._master, *self._workers) if c is not None and c.ended() is None]

    def start(self, timeout_s: float = 60.0) -> None:
        """Returns when all workers have joined. Raises `StartError` (with the end of the log) or `MissingExtra`."""
        found, home = java.find(), spark_home()
        deadline = time.monotonic() + timeout_s
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._master = self._launch(found, home, "master", "--port", str(self._port), "--webui-port", str(self._ui))
            # workers retry for a while until the master is there
            self._workers = [self._worker(found, home, n) for n in range(self._count)]
            while self.facts().get("aliveworkers", 0) < self._count:
                self._check(deadline)
                time.sleep(_POLL_S)
        except OSError as e:
            self.kill()
            raise StartError(f"can't start Spark in {self.folder}: {e}") from e
        except BaseException:
            self.kill()
            raise

    def facts(self) -> dict[str, Any]:
        """The master's status (`aliveworkers`, `activeapps`, `completedapps`, …); empty if it does not answer."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with suppress(OSError, ValueError), opener.open(f"{self.ui}/json/", timeout=5) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
        return {}

    def stop(self) -> None:
        """Ends all processes gracefully: workers end their executors."""
        for child in (*self._workers, *([self._master] if self._master else [])):
            child.terminate(_STOP_S)
        self.kill()

    def kill(self) -> None:
        """Kills all processes; returns once they are gone."""
        for child in (*self._workers, *([self._master] if self._master else [])):
            child.kill()
        self._master, self._workers = None, []

    def tail(self, name: str = "master", lines: int = 10) -> str:
        """The end of a process's log ("master", "worker-0", …), for people."""
        log = self.folder / f"{name}.log"
        said = log.read_text(errors="replace").splitlines()[-lines:]
        return "\n".join([f"the end of {log}:", *(f"  {line}" for line in said)])

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()

    def _worker(self, found: java.Java, home: Path, number: int) -> Child:
        name = f"worker-{number}"
        size = ("--cores", str(self._cores), "--memory", self._memory, "--work-dir", str(self.folder / name))
        return self._launch(found, home, name, "--port", "0", "--webui-port", "0", *size, self.url)

    def _launch(self, found: java.Java, home: Path, name: str, *arguments: str) -> Child:
        kind = name.partition("-")[0]
        main = f"org.apache.spark.deploy.{kind}.{kind.capitalize()}"
        options = (*_OPTIONS, f"-Dlog4j2.configurationFile={_LOGGING}", "-cp", f"{home}/jars/*")
        env = {
            **os.environ,
            "JAVA_HOME": str(found.home),
            "SPARK_HOME": str(home),
            "SPARK_SCALA_VERSION": _scala(home),  # Spark's scripts set it; workers need it to start executors
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
        }
        command = [found.executable, *options, main, "--host", "127.0.0.1", *arguments]
        return Child(command, self.folder / f"{name}.log", env)

    def _check(self, deadline: float) -> None:
        assert self._master is not None
        named = [("master", self._master), *((f"worker-{n}", w) for n, w in enumerate(self._workers))]
        for name, child in named:
            if (code := child.ended()) is not None:
                raise StartError(f"Spark's {name} ended early (code {code})\n{self.tail(name)}")
        if time.monotonic() > deadline:
            raise StartError(f"Spark's workers did not join in time\n{self.tail()}")


def _scala(home: Path) -> str:
    found = next((home / "jars").glob("spark-core_*.jar"), None)
    if found is None:
        raise StartError(f"no Spark among the jars of PySpark ({home})")
    return found.name.split("_")[1].split("-")[0]


def spark_home() -> Path:
    """The folder of the Spark that PySpark ships. Raises `MissingExtra`."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise MissingExtra("Spark needs PySpark: install tidegate[spark]")
    return Path(spec.origin).parent
