"""Apache Kafka in KRaft mode, as a child process: for tests, and for `tidegate dev kafka`."""

from __future__ import annotations

import base64
import os
import shutil
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from gateway_core.contract.errors import StartError

from . import class_archive, jars, java, server_process
from .child import Child
from .kafka_config import Listener, ScramUser, server_properties, written
from .ports import free_ports, is_free
from .wire import answers, create_topic

VERSION = "4.1.1"
ARCHIVE = "kafka"
"""Names the archive of its classes, which `python -m gateway_java.kafka_archive` creates."""
STOP_S = 30.0
_LOGGER = "1.7.36"  # of the slf4j that Kafka 4 depends on; without one, the broker dies silently


def broker_artifacts(version: str = VERSION) -> list[jars.Artifact]:
    """The artifacts of a broker, for `jars.fetch` (about a minute the first time)."""
    parse = jars.Artifact.parse
    broker = parse(f"org.apache.kafka:kafka_2.13:{version}", transitive=True)
    return [broker, parse(f"org.slf4j:slf4j-simple:{_LOGGER}")]


def new_cluster_id() -> str:
    """An id for a new cluster: 16 random bytes, as Kafka writes them."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


class KafkaBroker:
    """One broker that is its own controller, on 127.0.0.1 only. It ends with the process that started it.

    `folder` holds its data, log and settings. `port` 0 chooses free ports, which stay the same through restarts.
    `listeners` are additional to the plain one, `users` can log in with SCRAM, `properties` override all settings.
    `java_options` are for the broker's JVM, instead of those for the archive of its classes. Brokers that form one
    cluster have one `cluster_id` (of `new_cluster_id`), and say by their `properties` who they are.
    """

    def __init__(
        self,
        folder: Path,
        *,
        port: int = 0,
        listeners: Sequence[Listener] = (),
        users: Sequence[ScramUser] = (),
        properties: Mapping[str, str] | None = None,
        version: str = VERSION,
        memory: str = "512m",
        java_options: Sequence[str] = (),
        cluster_id: str = "",
    ) -> None:
        self.folder = folder.absolute()
        self._cluster_id = cluster_id or new_cluster_id()
        self.version = version
        self._listeners = tuple(listeners)
        self._users = tuple(users)
        self._properties = dict(properties or {})
        self._memory = memory
        self._java_options = tuple(java_options)
        free = iter(free_ports(len(self._listeners) + 2))
        self._port = port or next(free)
        self._controller = next(free)
        self._ports = {one.name: one.port or next(free) for one in self._listeners}
        self._child: Child | None = None

    @property
    def bootstrap(self) -> str:
        """The address of the plain listener, `127.0.0.1:PORT`."""
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int | None:
        """The broker's process id, or None."""
        return self._child.pid if self._child and self._child.ended() is None else None

    @property
    def log(self) -> Path:
        """The broker's log: warnings and errors."""
        return self.folder / "broker.log"

    def address(self, listener: str) -> str:
        """The address of the listener of this name, `127.0.0.1:PORT`."""
        return f"127.0.0.1:{self._ports[listener]}"

    def start(self, timeout_s: float = 60.0) -> None:
        """Starts the broker with the existing data, and returns when it responds and all its listeners are open. Raises
        `StartError`: a port is in use, there is no Java, the jars can't be downloaded, it died (with the end of its
        log) or did not respond in time."""
        if self.pid is not None:
            return
        self.check_ports()
        found = java.find()
        needed = jars.fetch(broker_artifacts(self.version), found)
        classes = os.pathsep.join(map(str, needed))
        options = class_archive.options(class_archive.archive_path(ARCHIVE, found, needed))
        deadline = time.monotonic() + timeout_s
        settings = self._write_settings()
        if not (self._data / "meta.properties").exists():
            self._format(found, classes, [*options, "-Xmx128m"], settings, deadline)
        options = [*(self._java_options or options), f"-Xmx{self._memory}"]
        self._child = self._java(found, classes, *options, "kafka.Kafka", str(settings))
        try:
            self._wait(deadline)
        except BaseException:
            self.kill()
            raise

    def check_ports(self) -> None:
        """Raises `StartError` if one of its ports is in use."""
        for port in (self._port, self._controller, *self._ports.values()):
            if not is_free(port):
                raise StartError(f"can't start Kafka: port {port} of 127.0.0.1 is in use")

    def stop(self, timeout_s: float = STOP_S) -> None:
        """Sends SIGTERM, so that it flushes its data and ends; SIGKILL after `timeout_s`."""
        if self._child:
            self._child.terminate(timeout_s)
            self._child = None

    def kill(self) -> None:
        """SIGKILL, as a crash would; returns once it is gone."""
        if self._child:
            self._child.kill()
            self._child = None

    def alone(self) -> AbstractContextManager[None]:
        """Locks its folder for this process. Raises `StartError` if another process holds it."""
        return server_process.alone(self.folder, "Kafka")

    def erase(self) -> None:
        """Deletes its data; not while it runs."""
        shutil.rmtree(self._data, ignore_errors=True)

    def create_topic(self, name: str, partitions: int = 1, settings: Mapping[str, str] | None = None) -> bool:
        """Creates a topic; False if it already exists. Raises `StartError`."""
        return create_topic(self._port, name, partitions, settings or {})

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _write_settings(self) -> Path:
        listeners = [(one, self._ports[one.name]) for one in self._listeners]
        settings = server_properties(self._data, self._controller, self._port, listeners, self._properties)
        file = self.folder / "server.properties"
        try:
            self._data.mkdir(parents=True, exist_ok=True)
            file.touch(mode=0o600)  # it may contain passwords
            file.write_text(written(settings), encoding="ascii")
            self.log.write_bytes(b"")
        except OSError as e:
            raise StartError(f"can't write to {self.folder}: {e}") from e
        return file

    def _format(self, found: java.Java, classes: str, options: Sequence[str], settings: Path, deadline: float) -> None:
        users = [argument for user in self._users for argument in ("--add-scram", user.argument())]
        # with `=`, since one in 64 ids begins with a dash
        cluster = f"--cluster-id={self._cluster_id}"
        tool = ("kafka.tools.StorageTool", "format", cluster, "--config", str(settings), *users)
        child = self._java(found, classes, *options, *tool)
        try:
            while (code := child.ended()) is None:
                if time.monotonic() > deadline:
                    raise StartError(f"Kafka's storage was not formatted in time\n{self.tail()}")
                time.sleep(server_process.POLL_S)
        finally:
            child.kill()
        if code:
            raise StartError(f"can't format Kafka's storage (code {code})\n{self.tail()}")

    def _java(self, found: java.Java, classes: str, *arguments: str) -> Child:
        logger = "-Dorg.slf4j.simpleLogger."
        options = (*java.QUICK, "-Xshare:auto", f"{logger}defaultLogLevel=warn", f"{logger}showDateTime=true")
        try:
            return Child([found.executable, *options, *arguments], self.log, {**os.environ, "CLASSPATH": classes})
        except OSError as e:
            raise StartError(f"can't start Kafka: {e}") from e

    def _wait(self, deadline: float) -> None:
        assert self._child is not None
        server_process.wait_until_it_answers(self._child, self._listens, deadline, "Kafka", self.log)

    def _listens(self) -> bool:
        # the broker opens its listeners one after the other
        return answers(self._port) and not any(map(is_free, self._ports.values()))

    def tail(self, lines: int = 15) -> str:
        """The end of the broker's log, for people."""
        return server_process.tail(self.log, lines)
