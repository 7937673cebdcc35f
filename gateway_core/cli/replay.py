"""`tidegate dlq replay`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass

import typer

from .. import eventjson
from ..delivery.deadletter import without_facts
from ..secrecy import HIDDEN
from ..tracing import headers as trace_headers
from . import FAULT, OK, common
from .dlq import Letter, Query, Store, Stores
from .post import STRUCTURED, binary, check_url, client, post
from .running import addresses

REMOVE_EVERY = 500
"""Letters are taken out in groups, since each removal writes the file anew; a crash between sends a group again."""


@dataclass(frozen=True, slots=True)
class Replay:
    """How: `to` an address (None: each broker's ingress)."""

    to: str | None
    retry: int
    dry_run: bool
    as_json: bool


@dataclass(slots=True)
class Count:
    replayed: int = 0
    refused: int = 0
    skipped: int = 0


def replay_letters(stores: Stores, query: Query, plan: Replay) -> int:
    """Sends the letters that are meant; those that got a 2xx leave the dead letter. Returns the exit code."""
    if plan.to is not None:
        try:
            check_url(plan.to)
        except ValueError as e:
            raise typer.BadParameter(str(e), param_hint="--to") from e
    # read first, since replayed events may come back while we go
    letters = list(stores.letters(query))
    if missing := query.ids - {letter.id for letter in letters}:
        raise common.CommandError(f"no letter has the id {', '.join(sorted(missing))}")
    targets = _targets(stores, letters, plan)
    count = Count()
    if plan.dry_run:
        for letter in letters:
            where = targets[letter.broker] if _original(letter) else "nowhere: it never was an event"
            print(f"{letter.id}  {letter.fact('type')} {letter.fact('id')} -> {where}", file=sys.stderr)
    elif letters:
        _replay_all(letters, targets, plan, count)
    _report(count, len(letters), plan)
    return OK if plan.dry_run or count.replayed == len(letters) else FAULT


def _targets(stores: Stores, letters: Iterable[Letter], plan: Replay) -> dict[str, str]:
    """Where each broker's letters go. Raises `CommandError` where that isn't known."""
    brokers = {letter.broker: letter for letter in letters}
    if plan.to is not None:
        return dict.fromkeys(brokers, plan.to)
    found = addresses(stores.data_dir)
    if brokers and found is None:
        raise common.CommandError("the gateway isn't running: start it, or name an address with --to")
    return {name: _ingress_of(letter, found["ingress"] if found else {}) for name, letter in brokers.items()}


def _ingress_of(letter: Letter, ingress: dict[str, list[str]]) -> str:
    if not letter.broker:
        raise common.CommandError(f"{letter.place.owner}: a bridge takes no letters back: name an address with --to")
    for url in ingress.get(letter.broker, ()):
        if url.startswith(("http://", "https://")) and HIDDEN not in url:
            return url
    raise common.CommandError(f"broker {letter.broker!r} has no HTTP ingress known here: name an address with --to")


def _original(letter: Letter) -> bool:
    """Whether the letter holds an event that was accepted once: raw input that no codec could read isn't one."""
    return letter.fact("tidegatestage") != "decode"


def _replay_all(letters: list[Letter], targets: dict[str, str], plan: Replay, count: Count) -> None:
    done: dict[str, tuple[Store, list[str]]] = {}
    try:
        with client(list(targets.values())) as to:
            for letter in letters:
                if not _original(letter):
                    count.skipped += 1
                    print(f"{letter.id}: skipped, it never was an event", file=sys.stderr)
                    continue
                event = without_facts(letter.event)
                # functions that know events under Fn's 0.1 names (`cloudEventsVersion`) expect JSON
                if event.attributes.get("specversion") == "1.0" or "cloudEventsVersion" in event.attributes:
                    headers, body = STRUCTURED, eventjson.structured(event)
                else:
                    headers, body = binary(event)
                if event.trace is not None:
                    headers = {**headers, **{n.decode(): v.decode() for n, v in trace_headers(event.trace)}}
                answer = post(to, targets[letter.broker], headers, body, plan.retry)
                if not answer.accepted:
                    count.refused += 1
                    print(f"{letter.id}: {answer.detail}", file=sys.stderr)
                    if answer.status is None:
                        return
                    continue
                place, ids = done.setdefault(letter.place.address, (letter.place, []))
                ids.append(letter.id)
                if len(ids) >= REMOVE_EVERY:
                    count.replayed += _remove(place, ids)
    finally:
        for place, ids in done.values():
            count.replayed += _remove(place, ids)


def _remove(place: Store, ids: list[str]) -> int:
    number = len(ids)
    if ids:
        place.store.remove(ids)
        ids.clear()
    return number


def _report(count: Count, all_: int, plan: Replay) -> None:
    left = all_ - count.replayed
    if plan.as_json:
        counts = {"replayed": count.replayed, "refused": count.refused, "skipped": count.skipped, "left": left}
        common.print_json({**counts, "dry_run": plan.dry_run})
    elif plan.dry_run:
        print(f"{all_} would be sent")
    else:
        print(f"{count.replayed} replayed, {left} left")
