"""The status: how the records of several workers become one, and what a document has."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from functools import cache, reduce
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec
import pytest
from gateway_workers.status import merge
from hypothesis import given
from hypothesis import strategies as st

from gateway_core.contract import record
from gateway_core.contract.record import Field, Record, Rule, fields
from gateway_core.contract.status import (
    WITH_READY,
    BridgeStatus,
    BrokerStatus,
    ChannelStatus,
    Durations,
    GatewayStatus,
    ObserverStatus,
    ProcessStatus,
    ReaderStatus,
    ReplaysStatus,
    SourceStatus,
    TriggerStatus,
    Unreported,
)
from gateway_core.runtime.earlier import Earlier
from tests.budget import examples


def kinds(kind: type[Record] = GatewayStatus) -> Iterator[type[Record]]:
    """All kinds of records in a status."""
    yield kind
    for field in fields(kind):
        if field.nested is not None:
            yield from kinds(field.nested)


KINDS = sorted(set(kinds()), key=lambda kind: kind.__name__)
FEW = examples(40)
NUMBERS = st.integers(0, 1000)
TEXTS = st.sampled_from(["", "a", "b"])
DETAILS = st.fixed_dictionaries(
    {}, optional={"pages": NUMBERS, "shards": st.dictionaries(st.sampled_from("01"), NUMBERS), "topic": TEXTS}
)


KEYS = {
    SourceStatus: "address",
    BrokerStatus: "name",
    TriggerStatus: "name",
    BridgeStatus: "name",
    ReplaysStatus: "name",
    Unreported: "part",
}


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a field's type."""
    if get_origin(hint) is Annotated:
        return values(get_args(hint)[0])
    if isinstance(hint, types.UnionType):
        return st.one_of([values(arg) for arg in get_args(hint)])
    if isinstance(hint, type) and issubclass(hint, Record):
        return records(hint)
    if get_origin(hint) is list:
        (item,) = get_args(hint)
        key = KEYS.get(item)
        return st.lists(values(item), max_size=2, unique_by=(lambda entry: getattr(entry, key)) if key else None)
    if get_origin(hint) is dict:
        return DETAILS if get_args(hint)[1] is Any else st.dictionaries(st.sampled_from("xyz"), NUMBERS)
    simple = {int: NUMBERS, float: NUMBERS.map(float), bool: st.booleans(), str: TEXTS, types.NoneType: st.none()}
    return simple[hint]


@cache
def records(kind: type[Record]) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind, include_extras=True)
    return st.builds(kind, **{field.name: values(hints[field.name]) for field in fields(kind)})


def rules() -> dict[str, Rule]:
    """All rules, by name."""
    found = {name: value for name, value in vars(record).items() if isinstance(value, Rule)}
    return {**found, "WITH_READY": WITH_READY}


# -- every field has a rule, every rule is kept ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_says_what_it_means_and_how_it_is_merged(kind: type[Record]) -> None:
    assert [field.name for field in fields(kind)] == list(kind.__struct_fields__)
    assert all(field.description.endswith(".") for field in fields(kind))
    assert all(field.rule in rules().values() for field in fields(kind))


def test_a_field_without_a_rule_is_an_error() -> None:
    class Silent(Record, frozen=True):
        number: int = 0

    class Vague(Record, frozen=True):
        number: Annotated[int, msgspec.Meta(description="Some number.")] = 0

    for kind in (Silent, Vague):
        one: Record = kind()
        with pytest.raises(TypeError, match=f"{kind.__name__}.number does not say how it is merged"):
            one.merged(one)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@FEW
@given(data=st.data())
def test_merging_is_associative(kind: type[Record], data: st.DataObject) -> None:
    a, b, c = (data.draw(records(kind)) for _ in range(3))
    assert a.merged(b).merged(c) == a.merged(b.merged(c))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@FEW
@given(data=st.data())
def test_defaults_change_nothing(kind: type[Record], data: st.DataObject) -> None:
    one = data.draw(records(kind))
    names = {field.name: getattr(one, field.name) for field in fields(kind) if field.required}
    assert one.merged(kind(**names)) == one


def by(key: str) -> Callable[[list[Any]], list[Any]]:
    """Records of several lists, merged by this attribute, in the order in which they first come."""

    def merged(lists: list[list[Any]]) -> list[Any]:
        groups: dict[str, list[Any]] = {}
        for entry in (entry for entries in lists for entry in entries):
            groups.setdefault(getattr(entry, key), []).append(entry)
        return [reduce(type(group[0]).merged, group) for group in groups.values()]

    return merged


def known(parts: list[Any]) -> list[Any]:
    return [part for part in parts if part is not None]


def sums(parts: list[list[int]]) -> list[int]:
    longest = max(map(len, parts))
    return [sum(part[place] for part in parts if place < len(part)) for place in range(longest)]


def places(parts: list[list[Any]]) -> list[Any]:
    at = [[part[place] for part in parts if place < len(part)] for place in range(max(map(len, parts)))]
    return [reduce(type(entries[0]).merged, entries) for entries in at]


EXPECTED: dict[str, Callable[[list[Any]], Any]] = {
    "FIRST": lambda parts: next((p for p in parts if p not in (None, "")), parts[0]),
    "TOTAL": sum,
    "CURRENT": lambda parts: sum(known(parts)) if known(parts) else None,
    "EVERY": all,
    "ANY": any,
    "EARLIEST": lambda parts: min(known(parts), default=None),
    "GREATEST": lambda parts: max(known(parts), default=None),
    "TOTALS": sums,
    "TOTALS_BY_KEY": lambda parts: {k: sum(p.get(k, 0) for p in parts) for k in {k for p in parts for k in p}},
    "ONE": lambda parts: reduce(lambda a, b: a.merged(b), known(parts)) if known(parts) else None,
    "IN_ORDER": places,
    "BY_NAME": by("name"),
    "BY_PART": by("part"),
    "BY_ADDRESS": by("address"),
    "ALL": lambda parts: [entry for part in parts for entry in part],
}
ELSEWHERE = {"DETAILS", "WITH_READY"}
"""Rules with a test of their own."""


def test_every_rule_is_tested() -> None:
    assert rules().keys() == EXPECTED.keys() | ELSEWHERE


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@FEW
@given(data=st.data())
def test_fields_are_merged_by_their_rules(kind: type[Record], data: st.DataObject) -> None:
    parts = data.draw(st.lists(records(kind), min_size=1, max_size=4))
    merged = reduce(kind.merged, parts)
    names = {rule: name for name, rule in rules().items()}
    for field in fields(kind):
        if (name := names[field.rule]) in EXPECTED:
            of_each = [getattr(part, field.name) for part in parts]
            assert getattr(merged, field.name) == EXPECTED[name](of_each), field.name


@FEW
@given(st.lists(records(BrokerStatus), min_size=1, max_size=4))
def test_the_reason_is_that_of_the_first_that_is_not_ready(parts: list[BrokerStatus]) -> None:
    merged = reduce(BrokerStatus.merged, parts)
    failing = [part for part in parts if not part.ready]
    explained = [part for part in failing or parts if part.reason]
    shown = (explained or failing or parts)[0]
    assert (merged.ready, merged.reason, merged.condition) == (not failing, shown.reason, shown.condition)


def test_details_are_merged_by_what_they_are() -> None:
    mine = {"events": 1, "topic": "", "full": False, "shards": {"0": {"bytes": 1}}, "lag": None, "mine": [1]}
    theirs = {"events": 2, "topic": "t", "full": True, "shards": {"0": {"bytes": 2}, "1": {}}, "lag": 3, "mine": [2]}
    merged = ChannelStatus("log", details=mine).merged(ChannelStatus("log", details=theirs))
    shards = {"0": {"bytes": 3}, "1": {}}
    assert merged.details == {"events": 3, "topic": "t", "full": False, "shards": shards, "lag": 3, "mine": [1]}
    assert mine["shards"] == {"0": {"bytes": 1}}, "neither changes"


# -- counters outlive what they count -------------------------------------------------------------------------------

COUNTERS = {"TOTAL", "TOTALS", "TOTALS_BY_KEY"}


def counters(value: Any) -> Any:
    """The counters in a record, found in another way."""
    if isinstance(value, list):
        return [counters(entry) for entry in value]
    if not isinstance(value, Record):
        return value
    return {field.name: counters(getattr(value, field.name)) for field in fields(type(value)) if _counts(field)}


def _counts(field: Field) -> bool:
    name = next(name for name, rule in rules().items() if rule is field.rule)
    return name in COUNTERS or name in ("ONE", "BY_NAME", "IN_ORDER") or field.required


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@FEW
@given(data=st.data())
def test_what_ended_leaves_its_counters_and_nothing_else(kind: type[Record], data: st.DataObject) -> None:
    one = data.draw(records(kind))
    left = one.counts()
    assert counters(left) == counters(one)
    fresh = kind(**{field.name: getattr(one, field.name) for field in fields(kind) if field.required})
    for field in fields(kind):
        if not _counts(field):
            assert getattr(left, field.name) == getattr(fresh, field.name), field.name


def test_a_worker_that_ended_changes_counts_only() -> None:
    trigger = TriggerStatus(name="t", broker="b", delivered=3, lag=7, in_flight=1, ready=False, reason="down")
    broker = BrokerStatus("b", accepted=5, channel=ChannelStatus("log", writable=False, failed=2))
    process = ProcessStatus(worker=1)
    ended = GatewayStatus("1", ready=False, brokers=[broker], triggers=[trigger], processes=[process]).counts()
    mine = GatewayStatus(
        "1",
        brokers=[BrokerStatus("b", channel=ChannelStatus("log"))],
        triggers=[TriggerStatus(name="t", broker="b", lag=1)],
    )
    merged = merge(mine, [ended])
    assert merged.triggers == [TriggerStatus(name="t", broker="b", delivered=3, lag=1)]
    assert merged.brokers == [BrokerStatus("b", accepted=5, channel=ChannelStatus("log", failed=2))]
    assert (merged.ready, merged.processes) == (True, [])


def test_entries_are_those_of_the_first_worker() -> None:
    mine = GatewayStatus("1", brokers=[BrokerStatus("a", accepted=1), BrokerStatus("b")])
    other = GatewayStatus("1", brokers=[BrokerStatus("gone", accepted=9), BrokerStatus("a", accepted=2)])
    assert merge(mine, [other, other]).brokers == [BrokerStatus("a", accepted=5), BrokerStatus("b")]


def test_a_successor_continues_the_counts_but_has_no_reader_of_a_predecessor() -> None:
    earlier = Earlier()
    earlier.keep("triggers", TriggerStatus(name="t", broker="b", delivered=4, reader=ReaderStatus("running", rows=4)))
    earlier.keep("triggers", TriggerStatus(name="t", broker="b", delivered=1, lag=9))
    plain = TriggerStatus(name="t", broker="b", delivered=2)
    assert earlier.add_to("triggers", plain) == TriggerStatus(name="t", broker="b", delivered=7)
    reading = TriggerStatus(name="t", broker="b", reader=ReaderStatus("starting", rows=1))
    assert earlier.add_to("triggers", reading).reader == ReaderStatus("starting", rows=5)
    assert earlier.add_to("bridges", BridgeStatus("t")) == BridgeStatus("t")
    earlier.forget(lambda section, name: False)
    assert earlier.add_to("triggers", plain) == plain


# -- documents ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@FEW
@given(records(GatewayStatus))
def test_a_document_has_all_of_a_status(status: GatewayStatus) -> None:
    assert GatewayStatus.read(status.document()) == status
    assert msgspec.json.decode(msgspec.json.encode(status), type=GatewayStatus) == status


def test_details_are_beside_the_other_fields() -> None:
    source = SourceStatus("kafka://h/t", lag=2, details={"group": "g"})
    document = BridgeStatus("b", sources=[source], attempt=Durations([1], 0.5)).document()
    assert document["sources"] == [{"address": "kafka://h/t", "error": None, "lag": 2, "group": "g"}]
    assert (document["attempt"], document["delivery"]) == ({"buckets": [1], "sum_s": 0.5}, None)


def test_a_document_of_another_version_can_be_read() -> None:
    status = GatewayStatus.read({"version": "9", "colour": "blue", "observers": [{"name": "o", "mood": "good"}]})
    assert status == GatewayStatus("9", observers=[ObserverStatus("o")])
    with pytest.raises(msgspec.ValidationError):
        GatewayStatus.read({"version": "9", "brokers": "none"})
