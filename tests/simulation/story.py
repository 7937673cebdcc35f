"""A run as a story: what was sent, what came where, what went wrong, in the order of simulated time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from . import history as h
from .decoding import attributes_of
from .oracle import Violation
from .plan import Plan, Trigger

EVENT = re.compile(r"\be\d+(?:\.\d+)?\b")
MOST_LINES = 200


def tell(plan: Plan, history: h.History, broken: Sequence[Violation], *, whole: bool = False) -> str:
    """The story of a run that broke promises. Unless it is told as a `whole`, only of the events that they name."""
    about = {id for violation in broken for id in EVENT.findall(violation.what)}
    lines = [f"seed {plan.seed}: {len(plan.sends)} requests, {len(plan.faults)} faults"]
    lines += [f"  {text}" for text in _setting(plan)]
    numbers: dict[int, str] = {}
    left = sorted(broken, key=lambda v: v.at)
    told = []
    for record in history.records:
        while left and left[0].at < record.at:
            told.append(_broken(left.pop(0)))
        text = _line(plan, record, numbers, None if whole or not about else about)
        if text:
            told.append(f"{record.at:10.3f}  {text}")
    told += [_broken(v) for v in left]
    if len(told) > MOST_LINES and not whole:
        told = [*told[: MOST_LINES // 2], f"{'':10}  … {len(told) - MOST_LINES} lines …", *told[-MOST_LINES // 2 :]]
    return "\n".join([*lines, *told])


def _broken(violation: Violation) -> str:
    return f"{violation.at:10.3f}  >>> {violation.what}\n{'':12}>>> promised: “{violation.sentence}”"


def _setting(plan: Plan) -> Iterator[str]:
    for number, config in enumerate(plan.configs):
        rest = f"sync {config.sync}, dead letters to {config.dead_letter}, drains for {config.drain_timeout_s:g} s"
        yield f"config {number}: {rest}"
        yield from (f"  {_trigger(t)}" for t in config.triggers)
        for bridge in config.bridges:
            yield f"  bridge {bridge.name}: {bridge.policy}, dead letter: {bridge.dead_letter}"


def _trigger(trigger: Trigger) -> str:
    p = trigger.policy
    wants = "all" if trigger.filter.kind == "all" else f"{trigger.filter.kind} {trigger.filter.value}"
    limits = f"{p.max_in_flight} in flight" + (f", {p.rate_per_s:g}/s" if p.rate_per_s else "")
    more = f", sink {trigger.sink}" if trigger.sink != "http" else ""
    most = f"{p.retry} retries" + (f" in {p.retry_for:g} s" if p.retry_for is not None else "")
    return (
        f"trigger {trigger.name}: wants {wants}, {p.order}, {limits}, {most}, {p.backoff} from "
        f"{p.backoff_delay_s:g} to {p.backoff_max_s:g} s, {p.timeout_s:g} s an attempt{more}"
    )


def _line(plan: Plan, record: h.Record, numbers: dict[int, str], about: set[str] | None) -> str:
    match record:
        case h.Sent():
            send = plan.sends[record.send]
            ids = [e.id for e in send.events]
            if about is not None and not about & set(ids):
                return ""
            again = f", try {record.attempt}" if record.attempt > 1 else ""
            cut = "" if record.whole else ", not whole"
            return f"a sender sends {', '.join(ids)} to {send.to} ({send.mode}{again}{cut})"
        case h.Answered():
            ids = [e.id for e in plan.sends[record.send].events]
            if about is not None and not about & set(ids):
                return ""
            answer = record.status if record.status is not None else f"no answer ({record.reason})"
            return f"the sender of {', '.join(ids)} gets {answer}"
        case h.Arrived():
            attributes = attributes_of(record)
            id = attributes.get("id", "?")
            if about is not None and id not in about:
                return ""
            numbers[record.number] = id
            dead = f" as dead letter of {attributes.get('tidegatetrigger')}" if record.dead else ""
            tries = (
                f" ({attributes.get('tidegateattempts')} attempts: {attributes.get('tidegatereason')})" * record.dead
            )
            return f"{record.server} gets {id}{dead}{tries}"
        case h.Published():
            return "" if about is not None and record.id not in about else f"{record.id} is published to {record.topic}"
        case h.Replied():
            if record.number not in numbers:
                return ""
            answer = record.status if record.status is not None else "nothing"
            return f"  and answers {answer}" + (f" ({record.how})" if record.how else "")
        case h.Happened():
            f = record.fault
            lasting = f" for {f.seconds:g} s" if f.seconds else ""
            return f"*** {f.kind} {f.target} {f.amount or ''}{lasting} {record.effect}".rstrip()
        case h.Over():
            return f"*** over: {record.fault.kind} {record.fault.target}".rstrip()
        case h.Letter():
            attributes = dict(record.attributes)
            if about is not None and attributes.get("id") not in about:
                return ""
            return f"the dead-letter file of {record.place} has {attributes.get('id')}"
        case h.Logged():
            named = set(EVENT.findall(record.text))
            if record.level not in ("ERROR", "CRITICAL", "WARNING") or (about and named and not named & about):
                return ""
            return f"log: {record.text[:200]}"
        case h.Repaired():
            return f"an operator repairs the log: {'; '.join(record.lines)}"
        case h.SyncFailed():
            return "*** a sync fails"
        case h.Starting():
            return f"the gateway starts (start {record.generation}, config {record.config})"
        case h.Started():
            return f"the gateway runs (start {record.generation}, config {record.config})"
        case h.StartFailed():
            return f"the gateway can't start: {record.error}"
        case h.Ended():
            return f"the gateway ends: {record.how}"
        case h.Reloaded():
            return f"config {record.config} is in force" + (f", but {record.faults}" if record.faults else "")
        case h.Paused():
            return f"paused: {', '.join(record.triggers) or 'none'}"
        case h.Quiet():
            return "the end" if record.quiet else f"the end, without rest: {record.why}"
        case h.Broken():
            return f"broken: {record.what}"
    return ""
