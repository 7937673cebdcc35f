"""Makes a plan that breaks a promise as small as it gets: without the sends, faults, triggers and configs that don't
matter, and with plain values for what remains."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from .plan import MODES, Config, Event, Network, Plan, Policy, Send, Trigger

T = TypeVar("T")
Breaks = Callable[[Plan], bool]
"""Whether a plan still breaks the promise."""


def shrunk(plan: Plan, breaks: Breaks, runs: int = 400) -> Plan:
    """The smallest plan found with this many runs."""
    left = [runs]

    def tried(candidate: Plan) -> bool:
        if left[0] <= 0 or candidate == smallest or not _received(candidate):
            return False
        left[0] -= 1
        return breaks(candidate)

    smallest = plan
    while True:
        before = smallest
        for part in (_faults, _sends):
            smallest = part(smallest, tried)
        for candidate in _simpler(smallest):
            if _fits(candidate, smallest) and tried(candidate):
                smallest = candidate
        # a candidate was made of the plan before; another round makes them of this one
        if smallest == before or left[0] <= 0:
            return smallest


def _received(plan: Plan) -> bool:
    """Whether all that is sent goes to something that the configs have."""
    for config in plan.configs:
        known = {"default", *(bridge.name for bridge in config.bridges)}
        if any(send.to not in (config.readers if send.mode in MODES else known) for send in plan.sends):
            return False
    return True


def _fits(candidate: Plan, smallest: Plan) -> bool:
    """Whether the candidate is smaller than the smallest so far, too."""
    return len(candidate.json()) <= len(smallest.json())


def minimal(items: Sequence[T], breaks: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """A part of the items that still breaks it and of which none can be left out (delta debugging)."""
    kept = tuple(items)
    if kept and breaks(()):
        return ()
    size = max(1, len(kept) // 2)
    while kept:
        start, removed = 0, False
        while start < len(kept):
            candidate = kept[:start] + kept[start + size :]
            if len(kept) > len(candidate) and breaks(candidate):
                kept, removed = candidate, True
            else:
                start += size
        if size == 1 and not removed:
            break
        size = max(1, size // 2)
    return kept


def _faults(plan: Plan, breaks: Breaks) -> Plan:
    return replace(plan, faults=minimal(plan.faults, lambda f: breaks(replace(plan, faults=f))))


def _sends(plan: Plan, breaks: Breaks) -> Plan:
    return replace(plan, sends=minimal(plan.sends, lambda s: breaks(replace(plan, sends=s))))


def _simpler(plan: Plan) -> Iterator[Plan]:
    """Plans with something simpler, each made of this one."""
    used = {f.amount for f in plan.faults if f.kind == "reload"}
    for count in range(1, len(plan.configs)):
        if not any(amount >= count for amount in used):
            yield replace(plan, configs=plan.configs[:count])
    if plan.network != Network():
        yield replace(plan, network=Network())
        yield from (replace(plan, network=n) for n in _plain(plan.network, Network()))
    names = {t.name for c in plan.configs for t in c.triggers}
    for name in names:
        configs = tuple(replace(c, triggers=tuple(t for t in c.triggers if t.name != name)) for c in plan.configs)
        yield replace(plan, configs=configs, faults=tuple(f for f in plan.faults if f.target != name))
    for number, config in enumerate(plan.configs):
        for simpler in _configs(config):
            yield replace(plan, configs=(*plan.configs[:number], simpler, *plan.configs[number + 1 :]))
    for number, send in enumerate(plan.sends):
        for plain in _send(send):
            yield replace(plan, sends=(*plan.sends[:number], plain, *plan.sends[number + 1 :]))
    for number, fault in enumerate(plan.faults):
        if fault.at != round(fault.at, 1) or fault.seconds != round(fault.seconds):
            plainer = replace(fault, at=round(fault.at, 1), seconds=float(round(fault.seconds)))
            yield replace(plan, faults=(*plan.faults[:number], plainer, *plan.faults[number + 1 :]))
    last = max([0.0, *(s.at for s in plan.sends), *(f.at for f in plan.faults)])
    if plan.seconds > last + 1:
        yield replace(plan, seconds=float(int(last) + 1))


def _configs(config: Config) -> Iterator[Config]:
    if config.bridges:
        yield replace(config, bridges=())
    for number, trigger in enumerate(config.triggers):
        for simpler in (
            *_plain(trigger, Trigger(trigger.name)),
            *(replace(trigger, policy=p) for p in _plain(trigger.policy, Policy())),
        ):
            yield replace(config, triggers=(*config.triggers[:number], simpler, *config.triggers[number + 1 :]))
    yield from (c for c in _plain(config, Config()) if c.triggers == config.triggers)


def _send(send: Send) -> Iterator[Send]:
    if len(send.events) > 1:
        yield from (replace(send, events=(event,)) for event in send.events)
    yield from (s for s in _plain(send, Send(send.at, send.events)) if s.events == send.events)
    for number, event in enumerate(send.events):
        for plain in _plain(event, Event(event.id)):
            yield replace(send, events=(*send.events[:number], plain, *send.events[number + 1 :]))


def _plain(value: T, plain: T) -> list[T]:
    """The value with one field each as in `plain`."""
    made = []
    for field in fields(value):  # type: ignore[arg-type]
        wanted: Any = getattr(plain, field.name)
        if getattr(value, field.name) != wanted:
            made.append(replace(value, **{field.name: wanted}))  # type: ignore[type-var]
    return made
