"""What the demo shows beside the way of each flight: a webhook that is sent again is stored once, past events are
replayed to one trigger, and events arrive later."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from gateway_core.contract.status import GatewayStatus

from . import flights
from .accounting import Check
from .processes import Gateway
from .sender import Ledger

WEBHOOKS = 3
DELAY_S = 3.0
"""As in configs/demo.yaml."""
_MARK = "tidegatereplay"


@dataclass(frozen=True, slots=True)
class Shown:
    """What came of it. `answers` are those to the events that were sent again: their status, and whether they name the
    first; `selected` and `replayed` are the counts of the replay."""

    answers: Sequence[tuple[int, bool]]
    selected: int
    replayed: int


def shows(status: GatewayStatus) -> bool:
    """Whether the config is one that shows this: its channel is the log."""
    return any(trigger.name == "diverted" for trigger in status.triggers)


def show(gateway: Gateway, ledger: Ledger) -> Shown:
    """Sends some events again, and replays the cancelled flights to their file."""
    answers = []
    for event in islice(ledger.accepted.values(), WEBHOOKS):
        whole = {k: v for k, v in event.attributes.items() if v} | {"data": json.loads(event.data)}
        answer = gateway.post(json.dumps(whole).encode(), {"content-type": "application/cloudevents+json"})
        answers.append((answer.status_code, "tidegate-duplicate" in answer.headers))
    return Shown(answers, *gateway.replay("cancelled"))


def first_and_replayed(file: Path) -> tuple[list[str], list[str]]:
    """The ids of the events in a file of JSON lines: those that came once, and those of a replay."""
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return [e["id"] for e in lines if _MARK not in e], [e["id"] for e in lines if _MARK in e]


def check(
    shown: Shown, ledger: Ledger, status: GatewayStatus, replayed: Sequence[str], later: Mapping[str, Sequence[float]]
) -> Iterator[Check]:
    """The checks of what was shown."""
    known = sum(names for _, names in shown.answers)
    duplicates = status.brokers[0].duplicates
    yield Check(
        "again",
        f"{len(shown.answers)} webhooks sent again = {known} answered as duplicates, {duplicates:,} stored once",
        all(code == 202 and names for code, names in shown.answers)
        and (duplicates >= known if ledger.resent else duplicates == known),
    )
    cancelled = ledger.of_type(flights.CANCELLED)
    yield Check(
        "replay",
        f"{len(cancelled):,} past events = {shown.selected:,} selected = {len(replayed):,} replayed into the file",
        Counter(replayed) == Counter(cancelled) and shown.selected == shown.replayed == len(cancelled),
    )
    diverted = ledger.of_type(flights.DIVERTED)
    early = [id for id, times in later.items() if min(times) < ledger.begun.get(id, 0.0) + DELAY_S]
    yield Check(
        "diverted",
        f"{len(diverted):,} matching = {len(later):,} delivered {DELAY_S:g} s later, {len(early)} too early",
        later.keys() == diverted and all(len(times) == 1 for times in later.values()) and not early,
    )
