"""All that runs in a soak, and how a fault reaches it.

    senders ─ http, https, [proxy] kafka ─▶ storm: log, kafka channel ─▶ subscriber, [proxy] subscriber, Spark tables
            ─ http ──────────────────────▶ steady: log ──────────────▶ subscriber

`storm` is a gateway with two workers; everything happens to it. `steady` is a second gateway that is never killed nor
stopped, so that its memory can be checked; it shares the work of the Kafka channel and meets all other faults.
"""

from __future__ import annotations

import json
import os
import random
import signal
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx
import trustme
from gateway_java.kafka import KafkaBroker
from gateway_java.kafka_config import Listener
from gateway_java.ports import free_ports
from gateway_testing import GatewayProcess

from tests.access.certificates import server_files
from tests.faults.proxy import Proxy
from tests.ledger import free_port
from tests.soak.disk import Disk
from tests.soak.ledger import Account, Control
from tests.soak.parts import OWN_SESSION, Part, Receiver, Senders
from tests.soak.sender import Load, Orders
from tests.soak.traffic import ROUTES, Route

TOPIC, CHANNEL = "incoming", "channel"
PARTITIONS = 4
START_S = 300.0


@dataclass(frozen=True, slots=True)
class Options:
    """What is asked of a soak: seconds, events a second (0: as many as it takes), mean seconds between two faults, a
    seed, and what takes part."""

    seconds: float
    folder: Path
    rate: float = 500.0
    every_s: float = 4.0
    seed: int = 1
    kafka: bool = True
    tables: tuple[str, ...] = ("log", "kafka")
    disk_mb: int = 1024
    most_open: int = 20_000
    capacity: int = 1 << 26
    only: tuple[str, ...] = ()
    """Faults by name; all if empty."""
    recovery_s: float = 180.0
    """So long after a fault every route has to flow again, or the run is a failure."""
    env: Mapping[str, str] = field(default_factory=dict)
    """More environment for the gateways."""
    connections: int = 4
    batch: int = 25
    command: str = ""
    """What was typed, for the report."""


class World:
    """`with World(options) as world:` runs all of it, under load."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.folder = options.folder.absolute()
        self.ledger = self.folder / "ledger"
        self.ledger.mkdir(parents=True)
        self.began = time.monotonic()
        self.routes = [route for route in ROUTES if options.kafka or route.name not in ("topic", "kafka")]
        self.tables = [name for name in options.tables if options.kafka or name != "kafka"]
        self.accounts = {route.name: Account(self.ledger, route.name, options.capacity) for route in self.routes}
        self.control = Control(self.ledger)
        self.disk = Disk(self.folder / "disk", options.disk_mb)
        self.ports = {name: free_port() for name in [*(route.name for route in self.routes), "other"]}
        self.receivers = [
            Receiver(self.folder, self.ledger, options.capacity, index, free_port(), self.began) for index in (0, 1)
        ]
        self.behind = Proxy(self.receivers[0].port)
        self.starts: list[tuple[float, str, float]] = []
        """When which part was started, and how many seconds that took."""
        self.generation = 0
        self.configs = threading.Lock()
        """Held while a gateway starts: it needs a config without faults."""
        self._ca = trustme.CA()
        self.kafka: KafkaBroker | None = None
        self.before_kafka: Proxy | None = None
        if options.kafka:
            self.kafka, self.before_kafka = self._kafka()

    def _kafka(self) -> tuple[KafkaBroker, Proxy]:
        direct, behind, before = free_ports(3)
        properties = {
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{direct},PROXIED://127.0.0.1:{before}",
            "log.retention.minutes": "30",
            "log.segment.bytes": str(32 << 20),
            "log.retention.check.interval.ms": "30000",
            "num.partitions": str(PARTITIONS),
        }
        listener = Listener("PROXIED", "PLAINTEXT", behind, {})
        broker = KafkaBroker(self.folder / "kafka", port=direct, listeners=[listener], properties=properties)
        return broker, Proxy(behind, before)

    # -- begin and end -----------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        try:
            self.behind.__enter__()
            for receiver in self.receivers:
                receiver.start()
            if self.kafka and self.before_kafka:
                self.timed("broker", lambda: self.kafka and self.kafka.start(START_S))
                self.before_kafka.__enter__()
                self.kafka.create_topic(TOPIC, PARTITIONS)
                self.kafka.create_topic(CHANNEL, PARTITIONS)
            self.renew_certificates()
            for name in ("storm", "steady"):
                (self.folder / name).mkdir()
            self.storm = GatewayProcess("", self.folder / "storm", self.options.env, "--workers", "2")
            self.storm.data_dir = self.disk.where / "data"
            self.steady = GatewayProcess("", self.folder / "steady", self.options.env)
            self.storm.launcher = self.steady.launcher = OWN_SESSION
            self.write_configs()
            for name in ("storm", "steady"):
                self.start_gateway(name)
            self.senders = Senders(self.folder, self._orders())
            self.senders.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.disk.thaw()
        parts: list[Part] = [*self.receivers, *([self.senders] if hasattr(self, "senders") else [])]
        for part in parts:
            part.kill()
        for gateway in [getattr(self, name) for name in ("storm", "steady") if hasattr(self, name)]:
            gateway.__exit__(None, None, None)
        if self.kafka and self.before_kafka:
            self.kafka.kill()
            self.before_kafka.__exit__()
        self.behind.__exit__()
        self.disk.close()

    def _orders(self) -> Orders:
        options, loads = self.options, []
        whole = sum(route.share for route in self.routes)
        for route in self.routes:
            rate = options.rate * route.share / whole
            if route.sends == "kafka" and self.kafka:
                load = Load(route.name, rate, 1, options.batch, bootstrap=self.kafka.bootstrap, topic=TOPIC)
            else:
                ca = str(self.folder / "ca.pem") if route.sends == "https" else ""
                url = f"{route.sends}://127.0.0.1:{self.ports[route.name]}/"
                load = Load(route.name, rate, options.connections, options.batch, url=url, ca=ca)
            loads.append(load)
        most = max(100, options.most_open // len(self.routes))
        return Orders(str(self.ledger), options.capacity, most, options.recovery_s, loads)

    # -- configs -----------------------------------------------------------------------------------------------------

    def write_configs(self) -> None:
        """Both configs, as of this generation: limits change from one to the next, and a trigger comes and goes."""
        for name in ("storm", "steady"):
            gateway: GatewayProcess = getattr(self, name)
            new = gateway.config.with_suffix(".new")
            new.write_text(json.dumps(self._config(name)))  # JSON is YAML
            new.replace(gateway.config)

    def _config(self, name: str) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self.receivers[0].port}"
        delivery = {
            "retry": 500,
            "backoff_delay_s": 0.1,
            "backoff_max_s": 2,
            "timeout_s": 10,
            "max_in_flight": 64 - 16 * (self.generation % 2),
        }
        common = {"delivery": delivery, "dead_letter": f"http://127.0.0.1:{self.receivers[1].port}/dead"}
        log = {"log": {"retention": {"max_bytes": self.options.disk_mb << 18}, "check_interval_s": 2}}
        brokers: dict[str, Any] = {}
        triggers: dict[str, Any] = {}
        for broker in dict.fromkeys(route.broker for route in self.routes if route.gateway == name):
            ingress = [
                self._ingress(route) for route in self.routes if route.gateway == name and route.broker == broker
            ]
            brokers[broker] = {"ingress": ingress, "channel": self._channel() if broker == "kafka" else log, **common}
            triggers[f"{broker}-out"] = {"broker": broker, "subscriber": f"{url}/out", "start": "earliest"}
        if name == "steady" and self.kafka:
            other = {"http": {"listen": f"127.0.0.1:{self.ports['other']}"}}
            brokers["kafka"] = {"ingress": [other], "channel": self._channel(), **common}
            triggers["kafka-out"] = {"broker": "kafka", "subscriber": f"{url}/out", "start": "earliest"}
        if name == "storm":
            proxied = f"http://127.0.0.1:{self.behind.port}/proxied"
            wanted = {"kind": "proxied"}
            triggers["proxied"] = {"broker": "log", "filter": wanted, "subscriber": proxied, "start": "earliest"}
            for table in self.tables:
                triggers[f"{table}-table"] = self._table(table)
            if self.generation % 2:
                triggers["sometimes"] = {"broker": "log", "filter": {"kind": "nobody"}, "subscriber": f"{url}/out"}
        return {"brokers": brokers, "triggers": triggers}

    def _ingress(self, route: Route) -> dict[str, Any]:
        if route.sends == "kafka":
            source = {"bootstrap": self._bootstrap, "topic": TOPIC, "group": "soak", "start": "earliest"}
            return {"kafka": {**source, "session_timeout_s": 6, "client_id": "soak"}}
        http: dict[str, Any] = {"listen": f"127.0.0.1:{self.ports[route.name]}"}
        if route.sends == "https":
            http["tls"] = {"cert_file": str(self.folder / "server.pem"), "key_file": str(self.folder / "server.key")}
        return {"http": http}

    @property
    def _bootstrap(self) -> str:
        return f"127.0.0.1:{self.before_kafka.port if self.before_kafka else 0}"

    def _channel(self) -> dict[str, Any]:
        channel = {"bootstrap": self._bootstrap, "topic": CHANNEL, "partitions": PARTITIONS, "group_prefix": "soak"}
        return {"kafka": {**channel, "key": "partitionkey", "session_timeout_s": 6, "request_timeout_s": 10}}

    def table_path(self, table: str) -> Path:
        """Where a table is."""
        return self.folder / "tables" / table

    @staticmethod
    def table_format(table: str) -> str:
        """Parquet from the log, Delta from Kafka."""
        return "parquet" if table == "log" else "delta"

    def _table(self, table: str) -> dict[str, Any]:
        spark = {
            "path": str(self.table_path(table)),
            "format": self.table_format(table),
            "trigger_interval_s": 5,
            "restart_delay_s": 0.5,
            "restart_delay_max_s": 5,
            "master": "local[1]",
            "ui": False,
            "conf": {
                "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
                "spark.sql.codegen.wholeStage": "false",
                "spark.sql.codegen.factoryMode": "NO_CODEGEN",
                "spark.sql.shuffle.partitions": "1",
            },
        }
        return {"broker": table, "filter": {"kind": "table"}, "start": "earliest", "subscriber": {"spark": spark}}

    def renew_certificates(self) -> bytes:
        """A new certificate for the HTTPS ingress, by the same authority; the certificate in DER."""
        self._ca.cert_pem.write_to_path(self.folder / "ca.pem")
        server_files(self._ca, self.folder)
        return ssl.PEM_cert_to_DER_cert(
            (self.folder / "server.pem").read_text().partition("-----END")[0] + "-----END CERTIFICATE-----\n"
        )

    # -- what faults need --------------------------------------------------------------------------------------------

    @property
    def elapsed(self) -> float:
        """Seconds since the begin."""
        return time.monotonic() - self.began

    def timed(self, part: str, start: Callable[[], object]) -> None:
        """Starts a part, and writes down how long that took."""
        begin = time.monotonic()
        start()
        self.starts.append((self.elapsed, part, time.monotonic() - begin))

    def start_gateway(self, name: str) -> None:
        """Starts a gateway; returns when its ingress is open."""
        gateway: GatewayProcess = getattr(self, name)
        with self.configs:
            self.timed(f"gateway {name}", lambda: gateway.start(START_S))

    def workers(self) -> list[int]:
        """The workers of `storm`, by the system."""
        return [pid for pid in children(self.storm.pid) if b"gateway_workers" in command_line(pid)]

    def spark(self, table: str, part: str) -> int | None:
        """The process id of a table's `driver` or `jvm`."""
        with suppress(OSError, ValueError, KeyError):
            lock = self.storm.data_dir / "spark" / f"{table}-table" / "checkpoint.lock"
            pid = int(json.loads(lock.read_text())[part][0])
            return pid if command_line(pid) else None
        return None

    def status(self, name: str) -> dict[str, Any] | None:
        """A gateway's status; None if it does not answer now."""
        gateway: GatewayProcess = getattr(self, name)
        try:
            answer = httpx.get(gateway.admin_url + "/status", timeout=5, headers=gateway.admin_headers)
            document: dict[str, Any] = answer.json()
        except (httpx.HTTPError, AssertionError, OSError, ValueError):
            return None
        return document if "triggers" in document else None


def children(pid: int) -> list[int]:
    """The processes that it has begun."""
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


def command_line(pid: int) -> bytes:
    """The command line of a process; nothing if there is none."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


@contextmanager
def stopped(*pids: int) -> Iterator[None]:
    """Inside, these processes are held by SIGSTOP."""
    _signal(pids, signal.SIGSTOP)
    try:
        yield
    finally:
        _signal(pids, signal.SIGCONT)


def _signal(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


Play = Callable[[World, random.Random], str | None]
"""What a fault does; returns a word on it, None if there was nothing to hurt."""
