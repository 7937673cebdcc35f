"""Promises about Kafka: offsets, records that are read and written, their order, and those that are no events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ..choices import KINDS, SERVER
from ..facts import EVER, LIKE_AN_ANSWER, Facts
from ..history import Committed, Over, Produced, Taken
from ..kafka_cluster import CHANNEL
from ..kafka_facts import channel
from ..kafka_plan import Kafka
from ..plan import Event, Policy
from .accepting import lost_with_power, wanted_by
from .registry import Found, promise

NOTICED_S = 1.5
"""Within this time all members of a group know that a topic was recreated."""

LONG_S = 60.0
"""After this time nothing is under way any more that began before, and no session is open that has ended."""
SLOW = frozenset(name for name, kind in KINDS.items() if kind.target == SERVER) - {*LIKE_AN_ANSWER, "late"}
"""Faults that may hold a request up on its way to a server."""


def options(facts: Facts) -> Kafka:
    """What the configs say of Kafka; all say the same."""
    return facts.plan.configs[0].kafka or Kafka()


def in_a_file(facts: Facts, name: str, id: str) -> bool:
    """Whether the dead letter is in a file, so that nobody saw when it came there."""
    return bool(facts.letters_of.get((name, id)))


def done_at(facts: Facts, name: str, record: Produced) -> float:
    """When a bridge or trigger was done with a record, at the latest; 0 if nobody saw it."""
    dropped = record.id in facts.kafka.foreign and options(facts).not_an_event == "drop"
    if dropped or in_a_file(facts, name, record.id):
        return 0.0
    return facts.settled_at(name, record.id)


def counts(facts: Facts, commit: Committed) -> bool:
    """Whether the topic was still there: later, nobody continues at this offset."""
    return sum(at <= commit.at for at in facts.kafka.recreated.get(commit.topic, ())) < commit.epoch


@promise("delivery", "It commits an offset when the sink or the dead letter has the event.")
def an_offset_is_committed_after_all_before_it(facts: Facts) -> Found:
    """Of bridges, and of triggers whose channel is Kafka."""
    passed: dict[tuple[str, str, int, int], int] = {}
    for commit in facts.kafka.commits:
        name = commit.group.rpartition(".")[2]
        place = commit.group, commit.topic, commit.epoch, commit.partition
        begin = passed.get(place, 0)
        passed[place] = max(begin, commit.offset)
        if commit.by != "gateway" or name == "default" or not counts(facts, commit):
            continue
        filters = [t.filter for t in facts.triggers(name, 0.0, EVER) if t is not None]
        for record in facts.kafka.written[commit.topic, commit.epoch, commit.partition]:
            event = facts.events.get(record.id)
            if not begin <= record.offset < commit.offset or event is None:
                continue
            if name not in facts.bridges and not (filters and all(f.wants(event) for f in filters)):
                continue
            if done_at(facts, name, record) > commit.at:
                yield (
                    commit.at,
                    (
                        f"{commit.group} committed {commit.offset} of {commit.topic}-{commit.partition},"
                        f" but {record.id} at {record.offset} was not settled"
                    ),
                )


@promise("delivery", "A Kafka source that feeds a broker commits an offset when the channel has the event.")
def an_offset_is_committed_when_the_channel_has_it(facts: Facts) -> Found:
    """The log can't be seen from outside: what it has not stored is missing in the end."""
    if not all(config.kafka is not None and config.kafka.channel for config in facts.plan.configs):
        return
    stored = {id: found[0].at for id, found in facts.kafka.of[CHANNEL].items()}
    for commit in facts.kafka.commits:
        if commit.by != "gateway" or commit.group != "tidegate.default" or not counts(facts, commit):
            continue
        for record in facts.kafka.written[commit.topic, commit.epoch, commit.partition]:
            if record.offset >= commit.offset or record.id in facts.kafka.foreign:
                continue
            taken = facts.kafka.taken.get(("default", record.id), EVER)
            if any(key[1] == record.id for key in (*facts.dead_of, *facts.letters_of)):
                continue  # the cluster refused it for good
            if min(taken, stored.get(record.id, EVER)) > commit.at:
                yield commit.at, f"{commit.group} committed {commit.offset}, but the channel did not have {record.id}"


@promise("delivery", "the 202 comes when all in-sync replicas have the event")
def a_sender_is_answered_when_the_topic_has_it(facts: Facts) -> Found:
    if not all(config.kafka is not None and config.kafka.channel for config in facts.plan.configs):
        return
    for id, copies in facts.copies.items():
        for copy in copies:
            if not copy.stored or copy.record or facts.to[id] != "default":
                continue
            if not any(copy.begin <= r.at <= copy.end for r in facts.kafka.of[CHANNEL].get(id, ())):
                yield copy.end, f"the sender of {id} got {copy.status}, but the topic did not have it"


@promise("delivery", "Without a dead letter it retries until the sink accepts the event")
def a_bridge_from_kafka_loses_nothing(facts: Facts) -> Found:
    for name in facts.from_kafka:
        for record in facts.kafka.sent(name):
            if record.id in facts.kafka.foreign and options(facts).not_an_event == "drop":
                continue
            if not facts.settled(name, record.id):
                yield record.at, f"{record.id} is in {record.topic}, but bridge {name} never settled it"


@promise("reference/kafka", "`not_an_event` decides what happens to a record without the required `ce_` headers")
def what_is_no_event_goes_where_the_config_says(facts: Facts) -> Found:
    kind = options(facts).not_an_event
    for record in facts.kafka.sent("default"):
        event = facts.kafka.foreign.get(record.id)
        if event is None or ("default", record.id) in facts.kafka.taken or lost_with_power(facts, record.at):
            continue
        if kind == "wrap":
            for name in wanted_by(facts, event, record.at, facts.end):
                # what the topic of the channel does not take is in the broker's dead letter
                if not facts.settled(name, record.id) and not facts.settled("default", record.id):
                    yield record.at, f"{record.id} of {record.topic} was wrapped, but {name} never settled it"
        elif kind == "dead_letter" and not _in_a_dead_letter(facts, record.id):
            yield record.at, f"{record.id} of {record.topic} is no event, but it is in no dead letter"
    if kind == "wrap":
        return
    for (name, id), attempts in facts.attempts_of.items():
        if id in facts.kafka.foreign:
            yield attempts[0].at, f"{name} got {id}, which is no event"


def _in_a_dead_letter(facts: Facts, id: str) -> bool:
    servers = any(key[1] == id and any(a.took for a in found) for key, found in facts.dead_of.items())
    return servers or any(key[1] == id for key in facts.letters_of)


@promise("reference/kafka", "From Kafka to Kafka it is kept, and null stays null.")
def keys_are_kept(facts: Facts) -> Found:
    for attempt in facts.attempts:
        event, headers = facts.events.get(attempt.id), dict(attempt.arrived.headers)
        if event is None or "kafka-key" not in headers:
            continue
        brought = facts.kafka.of.get(f"in-{facts.to[attempt.id]}", {}).get(attempt.id, ())
        key = dict(event.attributes).get("subject", "null") if event.id in facts.kafka.foreign else event.key or "null"
        if not brought and not (channel(facts.plan.configs) and facts.to[attempt.id] == "default"):
            key = "null"  # events from HTTP have none
        if headers["kafka-key"] != key:
            yield attempt.at, f"{attempt.arrived.server} got {event.id} with the key {headers['kafka-key']}, not {key}"


@promise("reference/kafka", "the data, byte for byte; null if there is none")
def what_has_no_data_is_null(facts: Facts) -> Found:
    for attempt in facts.attempts:
        event, headers = facts.events.get(attempt.id), dict(attempt.arrived.headers)
        if event is not None and "kafka-value" in headers and (headers["kafka-value"] == "null") != (event.size == 0):
            yield attempt.at, f"{attempt.arrived.server} got {event.id} with {headers['kafka-value']} for its data"


@promise("ordering", "an event waits until the one before it with its key is settled")
def records_keep_their_order(facts: Facts) -> Found:
    """First deliveries of the records of a partition, to triggers and bridges whose order was the same all the time."""
    for name in (*facts.names, *facts.bridges):
        policies = facts.policies(name)
        if not policies or any(p.order != policies[0].order for p in policies) or policies[0].order == "unordered":
            continue
        if name in facts.names and not _steady(facts, name):
            continue
        topics = {f"in-{name}"} if name in facts.bridges else {CHANNEL if channel(facts.plan.configs) else "in-default"}
        written = [records for (topic, _, _), records in facts.kafka.written.items() if topic in topics]
        places = Counter(id for records in written for id in {record.id for record in records})
        for records in written:
            # a record that is in two partitions may have had its first attempt from the other one
            yield from _overtaken(facts, name, policies[0], [r for r in records if places[r.id] == 1])


@promise("ordering", "the old owner drops what it has not started")
def what_has_moved_is_not_begun(facts: Facts) -> Found:
    """A bridge makes no first attempt with a record while another member of its group has the partition."""
    unsure = ("kafka-evict", "kafka-away", "kafka-slow", "kafka-commit", "kafka-recreate", "freeze", "clock")
    moves = [record.at for record in facts.history.of(Over) if record.fault.kind == "kafka-move"]
    for taken in facts.history.of(Taken):
        name = taken.group.rpartition(".")[2]
        begin, end = taken.at + facts.lag, min((at for at in moves if at >= taken.at), default=facts.plan.seconds)
        if name not in facts.from_kafka or name in facts.topics or facts.faults(unsure, taken.at - LONG_S, end):
            continue
        for record in facts.kafka.written[taken.topic, taken.epoch, taken.partition]:
            first = next(iter(facts.attempts_of.get((name, record.id), ())), None)
            if first is None or not begin < first.at < end:
                continue
            if not facts.faults(SLOW, taken.at - LONG_S, end, name):
                yield first.at, f"{name} got {record.id}, whose partition another member had since {taken.at:.2f} s"
                return


def _steady(facts: Facts, name: str) -> bool:
    found = facts.triggers(name, 0.0, EVER)
    same = all(t is not None and found[0] is not None and t.filter == found[0].filter for t in found)
    return same and not facts.faults(("mapper", "filter"), 0, EVER, name)


def _overtaken(facts: Facts, name: str, policy: Policy, records: list[Produced]) -> Found:
    sequences: dict[str, list[str]] = {}
    for id in dict.fromkeys(record.id for record in records):
        event = facts.events.get(id)
        if event is None or id in facts.kafka.foreign or (name, id) not in facts.attempts_of:
            continue
        for key in _sequences(policy, event):
            sequences.setdefault(key, []).append(id)
    unnoticed = _unnoticed(facts, records)
    for key, ids in sequences.items():
        starts = [facts.attempts_of[name, id][0].at for id in ids]
        for place, earlier in enumerate(ids):
            if in_a_file(facts, name, earlier) or lost_with_power(facts, records[0].at):
                continue
            settled = facts.settled_at(name, earlier)
            for later in range(place + 1, len(ids)):
                if starts[later] < settled and ids[later] not in unnoticed:
                    yield starts[later], f"{name} got {ids[later]} before {earlier} of the same {key} was settled"


def _unnoticed(facts: Facts, records: list[Produced]) -> set[str]:
    """The records of a recreated topic that were written before its readers noticed: they go on where they were in the
    deleted one, and then start again."""
    if not records or records[0].epoch == 1:
        return set()
    first = records[0]
    noticed = facts.kafka.recreated[first.topic][first.epoch - 2] + NOTICED_S
    for span in facts.spans:
        if span.kind == "freeze" and span.begin < noticed:
            noticed = max(noticed, span.end + NOTICED_S)
    return {record.id for record in records if record.at < noticed}


def _sequences(policy: Policy, event: Event) -> Iterator[str]:
    if policy.order == "partition":
        yield "partition"
    elif event.key:
        yield f"key {event.key}"
