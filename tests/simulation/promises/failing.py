"""Promises about dead letters, and about plugins that raise."""

from __future__ import annotations

from itertools import pairwise

from ..facts import EVER, STOPS, SYNCS, Attempt, Facts
from ..kafka_facts import channel_troubled
from .accepting import lost_with_power, possible, stored
from .registry import Found, promise


def dead_server_calm(facts: Facts, write: Attempt, until: float) -> bool:
    """Whether the dead letter's network was well, and so its answer was read."""
    return facts.calm(write.arrived.server, write.at - facts.lag, until)


@promise("delivery", "fails: BLOCK, keep the")
def a_failing_dead_letter_blocks(facts: Facts) -> Found:
    for (name, id), writes in facts.dead_of.items():
        if name not in facts.names:
            continue
        for number, write in enumerate(writes):
            if write.status is None or write.took or not dead_server_calm(facts, write, write.answered):
                continue
            generation = write.generation
            following = [w for w in writes[number + 1 :] if w.generation == generation]
            end = following[0].at - facts.lag if following else write.answered + 0.2
            begin = write.answered + 2 * facts.lag
            if facts.changing(write.at - 60, end) or write.answered > write.at + 20:
                continue
            for attempt in facts.between(name, begin, end):
                late = not facts.calm(name, attempt.at, attempt.at)  # a stalled network may hold it since long before
                if attempt.generation == generation and attempt.arrived.connection >= 0 and not late:
                    yield attempt.at, f"{name} got {attempt.id} while the dead letter of {id} could not be written"
                    return


@promise("delivery", "written again after 0.5 s … 30 s")
def a_dead_letter_is_written_again(facts: Facts) -> Found:
    for (name, id), writes in facts.dead_of.items():
        for before, after in pairwise(writes):
            if before.generation != after.generation or len(possible(facts, id)) != 1:
                continue
            if before.took or before.arrived.server != after.arrived.server:
                continue
            if not dead_server_calm(facts, before, after.at) or facts.changing(before.at - 60, after.at):
                continue
            wait = after.at - min(before.answered, before.at)
            if wait < 0.25 - facts.lag or after.at - before.at > 30 + 60 + facts.lag:
                yield after.at, f"the dead letter of {id} for {name} was written again after {wait:.2f} s"


@promise("delivery", "and then acknowledged. When the dead letter fails")
def a_dead_letter_is_written_once(facts: Facts) -> Found:
    for (name, id), writes in facts.dead_of.items():
        copies = len(possible(facts, id))
        for generation in facts.lives:
            mine = [w for w in writes if w.generation == generation]
            acked = [w for w in mine if w.took and dead_server_calm(facts, w, w.answered) and w.answered < w.at + 20]
            if any(facts.changing(w.at - 60, w.answered + 1) for w in acked):
                continue
            if len(acked) > copies:
                yield acked[-1].at, f"the dead letter of {id} for {name} was taken {len(acked)} times"


@promise("delivery", "events that waited together reach the dead letter together, `max_in_flight` at a time")
def not_all_dead_letters_at_once(facts: Facts) -> Found:
    for name in facts.names:
        most = max((p.max_in_flight for p in facts.policies(name)), default=0)
        writes = [w for (n, _), found in facts.dead_of.items() if n == name for w in found]
        # rejections are written as they come
        writes = sorted((w for w in writes if "knativeerrorcode" not in w.attributes), key=lambda w: w.at)
        flying: list[Attempt] = []
        for write in writes:
            flying = [w for w in flying if min(w.answered, w.at + 25) > write.at]
            flying = [w for w in flying if w.generation == write.generation]
            if write.status is None or not dead_server_calm(facts, write, min(write.answered, write.at + 25)):
                continue
            if facts.changing(write.at - 60, write.at + 1):
                continue
            flying.append(write)
            if len(flying) > 2 * most:  # attempts that had begun before the outage are given up on their own
                yield write.at, f"{len(flying)} dead letters of {name} are written at once, not {2 * most}"
                break


@promise("delivery", "goes to that trigger's dead letter, with `tidegatestage: filter`; other triggers get it as usual")
def a_filter_that_raises_loses_nothing(facts: Facts) -> Found:
    if channel_troubled(facts):  # its record may be read once the filter is well again
        return
    for span in facts.spans:
        if span.kind != "filter":
            continue
        for id, begin, end in stored(facts):
            if not span.begin + 0.1 <= begin <= end <= span.end - 0.1 or end == EVER:
                continue
            if lost_with_power(facts, begin) or facts.faults((*SYNCS, "reload", *STOPS), 0, EVER):
                continue  # a gateway that starts again asks the filter again
            found = facts.triggers(span.target, begin, EVER)
            if not found or any(t is None or t.filter.kind != "simulated" for t in found):
                continue
            if facts.paused(span.target, begin, end + 5) or facts.settled(span.target, id):
                continue
            yield end, f"the filter of {span.target} raised on {id}, which is neither delivered nor a dead letter"


@promise("delivery", "with `tidegatestage: filter`; other triggers get it as usual")
def stages_say_what_failed(facts: Facts) -> Found:
    for name, id, letter, write in facts.letters_by_attempt():
        stage = letter.get("tidegatestage", "")
        at = write.at if write is not None else facts.end
        kinds = {"filter": ("filter", "memory"), "order": ("mapper", "memory"), "encode": ("sink",), "decode": ()}
        raised = [k for k in kinds.get(stage, ()) if facts.faults((k,), 0, at, "" if k == "memory" else name)]
        if stage in kinds and id not in facts.kafka.foreign and not raised:
            yield at, f"the dead letter of {id} for {name} has the stage {stage}, but nothing of that raised"
        broker = id in facts.kafka.foreign or facts.faults(("kafka-produce",), 0, at)  # what its topic refuses for good
        if letter.get("tidegatetrigger") not in (*facts.names, *facts.bridges, *["default"] * bool(broker)):
            yield at, f"the dead letter of {id} names the trigger {letter.get('tidegatetrigger')}"
