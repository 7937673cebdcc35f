"""Checks of several triggers (`--triggers FILE`): which of them get an event, and what goes to their dead letters."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

from .bench import Bench, Cases, Check, NotSupported, expect
from .trigger_config import Attributes, Trigger, Triggers

_MOST_EVENTS = 60


# -- events -------------------------------------------------------------------------------------------------------


def events(found: Triggers) -> Iterator[dict[str, str]]:
    """Attributes of events that tell the filters apart: each value that a filter speaks of, values that begin or end
    with it, one that is cut, others, and none; mixed again from the same seed. All of one choice come first."""
    choices: dict[str, list[str | None]] = {}
    for name, texts in found.values.items():
        near = [v for t in dict.fromkeys(texts) for v in (t, f"{t}x", f"x{t}", t[:-1]) if v]
        choices[name] = [*dict.fromkeys(near), "other", *([] if name in ("type", "source") else [None])]
    names = list(choices)
    seen = set[tuple[str | None, ...]]()
    random_ = random.Random(1)
    plain = [tuple(texts[0] if texts else None for texts in choices.values())]
    single = (
        tuple(value if other == name else "other" for other in names) for name in names for value in choices[name]
    )
    mixed = (tuple(random_.choice(choices[n]) for n in names) for _ in itertools.repeat(None, 5_000))
    for values in itertools.chain(plain, single, mixed):
        if values not in seen:
            seen.add(values)
            yield {n: v for n, v in zip(names, values, strict=True) if v is not None}


def _chosen(found: Triggers, default: Attributes) -> list[dict[str, str]]:
    """Events of which as many as possible are told apart by some triggers."""
    by_answer: dict[tuple[bool, ...], list[dict[str, str]]] = {}
    for more in events(found):
        answer = tuple(t.matches({**default, **more}) for t in found.known)
        by_answer.setdefault(answer, []).append(more)
    each = max(1, _MOST_EVENTS // max(1, len(by_answer)))
    return [more for group in by_answer.values() for more in group[: each + 1]][: 2 * _MOST_EVENTS]


# -- checks -------------------------------------------------------------------------------------------------------


def _found(bench: Bench) -> Triggers:
    if bench.triggers is None:
        raise NotSupported("needs --triggers")
    return bench.triggers


def filters_choose(bench: Bench) -> None:
    found = _found(bench)
    default = {"type": "dev.tidegate.conformance", "source": bench.source, "specversion": "1.0"}
    sent = {bench.deliver(more=more): {**default, **more} for more in _chosen(found, default)}
    until = bench.until()
    with Cases() as cases:
        for id, attributes in sent.items():
            shown = ", ".join(f"{n} {attributes.get(n)!r}" for n in found.values) or "any event"
            for trigger in found.known:
                if trigger.matches(attributes):
                    came = bench.sink.came(trigger.path, id, 1, until)
                    cases.expect(came >= 1, f"the trigger {trigger.name} did not get an event with {shown}")
        bench.settle()
        for id, attributes in sent.items():
            shown = ", ".join(f"{n} {attributes.get(n)!r}" for n in found.values)
            for trigger in found.known:
                if not trigger.matches(attributes):
                    came = bench.sink.came(trigger.path, id)
                    cases.expect(came == 0, f"the trigger {trigger.name} got an event with {shown}")


def dead_letters_take_what_fails(bench: Bench) -> None:
    found = _with_dead_letter(bench)
    refused = {t.name: (t, bench.deliver(400, at=t.path, more=_match(bench, t))) for t in found}
    until = bench.until()
    with Cases() as cases:
        for name, (trigger, id) in refused.items():
            came = bench.sink.came(trigger.dead, id, 1, until)
            cases.expect(came >= 1, f"the dead letter of the trigger {name} did not get an event that was answered 400")


def dead_letters_take_nothing_else(bench: Bench) -> None:
    found = _with_dead_letter(bench)
    taken = {t.name: (t, bench.deliver(more=_match(bench, t))) for t in found}
    until = bench.until()
    with Cases() as cases:
        for name, (trigger, id) in taken.items():
            came = bench.sink.came(trigger.path, id, 1, until)
            cases.expect(came >= 1, f"the trigger {name} did not get its event")
        bench.settle()
        for name, (trigger, id) in taken.items():
            came = bench.sink.came(trigger.dead, id)
            cases.expect(came == 0, f"the dead letter of the trigger {name} got an event that was delivered")


def _with_dead_letter(bench: Bench) -> list[Trigger]:
    found = [t for t in _found(bench).known if t.dead]
    if not found:
        raise NotSupported("no trigger has its dead letter at the sink")
    return found


def _match(bench: Bench, trigger: Trigger) -> dict[str, str]:
    """Attributes of an event that a trigger wants, and few others."""
    found = _found(bench)
    default = {"type": "dev.tidegate.conformance", "source": bench.source, "specversion": "1.0"}
    wanted = [more for more in events(found) if trigger.matches({**default, **more})]
    expect(bool(wanted), f"no event can be made that the trigger {trigger.name} wants")
    return min(wanted, key=lambda more: sum(t.matches({**default, **more}) for t in found.known))


TRIGGERS = [
    Check("BR-08", "M", "gives each trigger what its filter matches, and nothing else", filters_choose, sink=True),
    Check("BR-19", "m", "sends to the dead letter what a subscriber refused", dead_letters_take_what_fails, sink=True),
    Check("BR-19", "m", "sends to the dead letter nothing else", dead_letters_take_nothing_else, sink=True),
]
