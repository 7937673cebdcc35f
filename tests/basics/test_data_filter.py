"""The filter `data`: what each operator, path and kind of data means, and what bounds it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import gateway_basics.plugin
import pytest
from gateway_basics.data_config import DataConfig
from gateway_testing import FakeClock
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gateway_core.config.registry import Registry
from gateway_core.contract import event_data
from gateway_core.contract.component import BuildContext, FilterRef
from gateway_core.contract.event import Event
from gateway_core.contract.event_data import UnreadableData
from gateway_core.contract.filters import clause_of
from gateway_core.contract.interfaces import Filter
from gateway_core.contract.model_errors import explain

pytestmark = pytest.mark.pure
REGISTRY = Registry()
REGISTRY.add("basics", gateway_basics.plugin)
TREE: dict[str, Any] = {
    "total": 100.5,
    "count": 3,
    "paid": True,
    "note": None,
    "name": "Straße",
    "empty": "",
    "customer": {"tier": "gold", "tags": ["vip", "new"], "a.b": "dotted", "$id": 7, "x[0]": "odd"},
    "items": [{"price": 5, "sku": "A-1"}, {"price": 50, "sku": "B-2"}, {"sku": "C-3"}, "loose"],
    "nested": [[1, [2]], []],
    "none": [],
    "object": {},
}


def build(config: Any, unreadable: UnreadableData | None = None) -> Filter:
    context = BuildContext("triggers.t.filters.0", Path(), FakeClock(), REGISTRY, unreadable=unreadable)
    built: Filter = context.build(FilterRef.parse({"data": config}))
    return built


def event(data: bytes | None, media: str | None = "application/json", **more: Any) -> Event:
    attributes = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", **more}
    return Event(attributes if media is None else {**attributes, "datacontenttype": media}, data)


def matches(config: Any, data: Any) -> bool:
    made = build(config)
    found = event(data if isinstance(data, bytes) else json.dumps(data).encode())
    decided = made.matches(found)
    assert clause_of(made, found).matched is decided
    return decided


CASES: dict[str, tuple[Any, bool]] = {
    # plain values
    "text": ({"customer.tier": "gold"}, True),
    "text differs": ({"customer.tier": "Gold"}, False),
    "one of a list": ({"customer.tier": ["silver", "gold"]}, True),
    "none of a list": ({"customer.tier": ["silver", 5, None]}, False),
    "number": ({"count": 3}, True),
    "number as a fraction": ({"count": 3.0}, True),
    "fraction": ({"total": 100.5}, True),
    "boolean": ({"paid": True}, True),
    "null": ({"note": None}, True),
    "empty text": ({"empty": ""}, True),
    "all paths": ({"count": 3, "paid": True, "total": {"gt": 100}}, True),
    "all paths but one": ({"count": 3, "paid": False}, False),
    # types are never converted
    "number is no text": ({"count": "3"}, False),
    "text is no number": ({"customer.tier": {"gt": 0}}, False),
    "true is no 1": ({"paid": 1}, False),
    "true is not above 0": ({"paid": {"gt": 0}}, False),
    "null is not absent": ({"note": {"exists": False}}, False),
    "null is no text": ({"note": "null"}, False),
    "null is not 0": ({"note": [0, False, ""]}, False),
    # operators
    "prefix": ({"customer.tier": {"prefix": "go"}}, True),
    "prefix one of": ({"customer.tier": {"prefix": ["x", "go"]}}, True),
    "prefix differs": ({"customer.tier": {"prefix": "old"}}, False),
    "prefix of a number": ({"count": {"prefix": "3"}}, False),
    "suffix": ({"customer.tier": {"suffix": ["ld", "x"]}}, True),
    "suffix differs": ({"customer.tier": {"suffix": "go"}}, False),
    "wildcard": ({"customer.tier": {"wildcard": "g*d"}}, True),
    "wildcard any": ({"empty": {"wildcard": "*"}}, True),
    "wildcard star": ({"customer.tier": {"wildcard": "g\\*d"}}, False),
    "wildcard overlaps": ({"customer.tier": {"wildcard": "gol*old"}}, False),
    "wildcard number": ({"count": {"wildcard": "*"}}, False),
    "ignore case": ({"name": {"equals_ignore_case": "STRASSE"}}, True),
    "ignore case differs": ({"name": {"equals_ignore_case": ["strase", "x"]}}, False),
    "gt": ({"total": {"gt": 100.4}}, True),
    "gt equal": ({"total": {"gt": 100.5}}, False),
    "gte equal": ({"total": {"gte": 100.5}}, True),
    "lt": ({"total": {"lt": 101}}, True),
    "lt equal": ({"total": {"lt": 100.5}}, False),
    "lte equal": ({"total": {"lte": 100.5}}, True),
    "range": ({"total": {"gt": 100, "lt": 101}}, True),
    "range misses": ({"total": {"gt": 100, "lt": 100.5}}, False),
    "not": ({"customer.tier": {"not": "silver"}}, True),
    "not it": ({"customer.tier": {"not": ["silver", "gold"]}}, False),
    "not operators": ({"customer.tier": {"not": {"prefix": "si"}}}, True),
    "not operators it": ({"customer.tier": {"not": {"prefix": "go"}}}, False),
    "not a null": ({"note": {"not": "x"}}, True),
    "not an object": ({"object": {"not": "x"}}, True),
    "not beside another": ({"customer.tier": {"not": "grey", "prefix": "g"}}, True),
    "not absent": ({"nothing": {"not": "x"}}, False),
    "exists": ({"customer.tier": {"exists": True}}, True),
    "exists not": ({"customer.nothing": {"exists": True}}, False),
    "exists object": ({"object": {"exists": True}}, True),
    "exists empty array": ({"none": {"exists": True}}, True),
    "absent": ({"customer.nothing": {"exists": False}}, True),
    "absent below a value": ({"count.nothing": {"exists": False}}, True),
    "absent not": ({"count": {"exists": False}}, False),
    "absent or a value": ({"count": [{"exists": False}, 3]}, True),
    "absent or another value": ({"count": [{"exists": False}, 4]}, False),
    "there or absent": ({"count": [{"exists": False}, {"exists": True}]}, True),
    # arrays
    "any element": ({"customer.tags": "vip"}, True),
    "no element": ({"customer.tags": "old"}, False),
    "not any element": ({"customer.tags": {"not": "vip"}}, True),
    "one element fulfils all": ({"items.price": {"gt": 5, "lt": 50}}, False),
    "one element": ({"items.price": {"gt": 5}}, True),
    "paths are about elements of their own": ({"items.price": 5, "items.sku": "B-2"}, True),
    "element absent in some": ({"items.price": {"exists": False}}, False),
    "element absent in all": ({"items.weight": {"exists": False}}, True),
    "arrays in arrays": ({"nested": 2}, True),
    "an empty array has no value": ({"none": {"not": "x"}}, False),
    "below an empty array": ({"none.a": {"exists": False}}, True),
    "array is no element": ({"nested": {"not": [1, 2]}}, False),
    # paths
    "dot in a name": ({"customer.a\\.b": "dotted"}, True),
    "dot splits": ({"customer.a.b": {"exists": True}}, False),
    "dollar in a name": ({"customer.$id": 7}, True),
    "bracket in a name": ({"customer.x\\[0\\]": "odd"}, True),
    "object is no value": ({"customer": ["gold", 7, None]}, False),
}


@pytest.mark.spec("FILT-01", "FILT-02", "FILT-03")
@pytest.mark.parametrize(("config", "expected"), CASES.values(), ids=CASES.keys())
def test_what_it_matches(config: Any, expected: bool) -> None:
    assert matches(config, TREE) is expected


NUMBERS: dict[str, tuple[Any, bytes, bool]] = {
    "above 2^53": ({"n": 9007199254740993}, b"9007199254740993", True),
    "its neighbour": ({"n": 9007199254740993}, b"9007199254740992", False),
    "its neighbour is less": ({"n": {"gt": 9007199254740992}}, b"9007199254740993", True),
    "not rounded to it": ({"n": {"gt": 9007199254740992}}, b"9007199254740992.5", True),
    "with an exponent": ({"n": 100}, b"1E2", True),
    "with zeros": ({"n": 100}, b"100.000", True),
    "a tenth": ({"n": 0.1}, b"0.1", True),
    "no double of a tenth": ({"n": 0.1}, b"0.1000000000000000055511151231257827", False),
    "a bit more than a tenth": ({"n": {"gt": 0.1}}, b"0.10000000000000000001", True),
    "minus zero": ({"n": 0}, b"-0.0", True),
    "beyond doubles": ({"n": {"gt": 1}}, b"1e400", True),
    "too small for doubles": ({"n": {"gt": 0}}, b"1e-400", True),
    "and not zero": ({"n": 0}, b"1e-400", False),
    "an endless exponent": ({"n": {"gt": 10**300}}, b"1e99999999999999999999", True),
    "negative": ({"n": {"lt": -(10**300)}}, b"-1.5e99999999999999999999", True),
    "next to nothing": ({"n": {"gt": 0, "lt": 1e-300}}, b"1e-99999999999999999999", True),
    "nothing": ({"n": 0}, b"-0.0e99999999999999999999", True),
    "many digits": ({"n": {"gt": 10**300}}, b"9" * 5000, True),
    "more digits than Python reads": ({"n": 10**300}, b"1" + b"0" * 300, True),
    "no number": ({"n": {"gt": 0}}, b'"9"', False),
}


@pytest.mark.spec("FILT-04")
@pytest.mark.parametrize(("config", "number", "expected"), NUMBERS.values(), ids=NUMBERS.keys())
def test_numbers_are_compared_exactly(config: Any, number: bytes, expected: bool) -> None:
    assert matches(config, b'{"n": %b}' % number) is expected


UNREADABLE: dict[str, tuple[Event, str]] = {
    "no data": (event(None), ""),
    "text": (event(b'{"a": 1}', "text/plain"), "not_json"),
    "no type": (event(b'{"a": 1}', None), "not_json"),
    "empty": (event(b""), "invalid"),
    "cut": (event(b'{"a": 1'), "invalid"),
    "two values": (event(b"1 2"), "invalid"),
    "NaN": (event(b'{"a": 1, "b": NaN}'), "invalid"),
    "no UTF-8": (event(b'{"a": 1, "b": "\xff"}'), "invalid"),
    "UTF-16": (event('{"a": 1}'.encode("utf-16")), "invalid"),
    "a line break in text": (event(b'{"a": 1, "b": "\n"}'), "invalid"),
    "too large": (event(b'{"a": 1}' + b" " * 1000), "too_large"),
    "too deep": (event(b'{"a": 1, "b": ' + b"[" * 100 + b"]" * 100 + b"}"), "too_deep"),
    "far too deep": (event(b"[" * 900), "too_deep"),
}


@pytest.mark.spec("FILT-05")
@pytest.mark.parametrize(("found", "reason"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_data_that_has_no_value_matches_nothing_and_is_counted(found: Event, reason: str) -> None:
    unreadable = UnreadableData()
    for config in ({"a": 1}, {"b": {"exists": False}}, {"a": {"not": 2}}):
        made = build({"$max_bytes": 1000, **config}, unreadable)
        assert made.matches(found) is False
        clause = clause_of(made, found)
        assert not clause.matched
        assert clause.found
    assert unreadable.counts == ({reason: 1} if reason else {})  # one event, whoever asks


READABLE = {
    "a suffix": event(b'{"a": 1}', "application/vnd.x+JSON; charset=utf-8"),
    "a byte-order mark": event(b'\xef\xbb\xbf{"a": 1}'),
    "half a surrogate pair": event(b'{"a": 1, "b": "\\ud800"}'),
    "brackets in text": event(b'{"a": 1, "b": "%b"}' % (b"[" * 500)),
    "deep": event(b'{"a": 1, "b": ' + b"[" * 99 + b"]" * 99 + b"}"),
    "many brackets": event(b'{"a": 1, "b": [' + b"[]," * 500 + b"0]}"),
    "a name twice": event(b'{"a": 2, "a": 1}'),
    "an older version": Event({"specversion": "0.2", "id": "1", "contenttype": "application/json"}, b'{"a": 1}'),
    "released 0.1": Event({"cloudEventsVersion": "0.1", "contentType": "application/json"}, b'{"a": 1}'),
    "JSON by the event format": Event({"specversion": "1.0"}, b'{"a": 1}', json_data=True),
}


@pytest.mark.spec("FILT-05")
@pytest.mark.parametrize("found", READABLE.values(), ids=READABLE.keys())
def test_data_that_is_json_all_the_same(found: Event) -> None:
    unreadable = UnreadableData()
    assert build({"a": 1}, unreadable).matches(found)
    assert unreadable.counts == {}


def test_what_it_found_can_always_be_shown() -> None:
    """Half a surrogate pair and great numbers, too."""
    for data in (
        b'{"a": "\\ud800"}',
        b'{"a": 1e999999999}',
        b'{"a": %b}' % (b"7" * 6000),
        b'{"a": "%b"}' % (b"x" * 99),
    ):
        clause = clause_of(build({"a": 1}), event(data))
        assert len(clause.found.encode()) < 200
        assert not clause.matched


@pytest.mark.spec("FILT-06")
def test_data_is_decoded_once_for_all_filters() -> None:
    """Seen from outside: the value that filters share is the same object, until it is released."""
    found = event(b'{"a": [1]}')
    filters = [build({"a": 1}), build({"a": {"exists": True}}), build({"$max_bytes": 5, "a": 1})]
    assert [f.matches(found) for f in filters] == [True, True, False]
    value = event_data.json_value(found, 100)
    assert event_data.json_value(found.with_attributes(more="x"), 100) is value
    event_data.release()
    assert event_data.json_value(found, 100) is not value
    assert event_data.json_value(event(b'{"a": [1]}', "text/plain"), 100) is event_data.NOT_JSON


@pytest.mark.spec("FILT-06")
def test_the_same_bytes_of_another_type_are_another_value() -> None:
    data = b'{"a": 1}'
    made = build({"a": 1})
    assert made.matches(event(data))
    assert not made.matches(event(data, "text/plain"))
    assert made.matches(event(data))


@pytest.mark.spec("FILT-07")
def test_the_explanation_says_what_was_found() -> None:
    made = build(
        {"total": {"gt": 200, "not": 7}, "customer.tags": ["old", {"prefix": ["x"]}], "nothing": {"exists": False}}
    )
    clause = clause_of(made, event(json.dumps(TREE).encode()))
    assert [(p.text, p.matched, p.found, p.data) for p in clause.parts] == [
        ("data total: {gt: 200, not: 7}", False, "total is 100.5", True),
        ('data customer.tags: "old", {prefix: ["x"]}', False, 'customer.tags is "vip", "new"', True),
        ("data nothing: {exists: false}", True, "nothing is absent", True),
    ]
    assert clause_of(build({"none": 1}), event(json.dumps(TREE).encode())).found == "none is an empty array"
    assert clause_of(build({"customer": 1}), event(json.dumps(TREE).encode())).found == "customer is an object"
    assert clause_of(build({"a": 1}), event(b'{"a": [1,2,3,4]}')).found == "a is 1, 2, 3, …"


FAULTS: dict[str, tuple[Any, tuple[Any, ...], str]] = {
    "no path": ({}, (), "has no path"),
    "only an option": ({"$max_bytes": 5}, (), "has no path"),
    "no mapping": ("total > 5", (), "expected a mapping"),
    "a list": ([{"a": 1}], (), "expected a mapping"),
    "no operator": ({"a": {}}, ("a",), "has no operator"),
    "a misspelt operator": ({"a": {"gtt": 5}}, ("a", "gtt"), "did you mean `gt`"),
    "nested like the data": ({"a": {"b": {"gt": 5}}}, ("a",), "write the whole path"),
    "a number as text": ({"a": {"gt": "5"}}, ("a", "gt"), "expected a whole number or a number"),
    "no number": ({"a": {"lte": True}}, ("a", "lte"), "expected a whole number or a number"),
    "nothing": ({"a": {"gt": None}}, ("a", "gt"), "found nothing"),
    "not finite": ({"a": float("inf")}, ("a",), "write a finite number"),
    "rounded": ({"a": [1, 1e22]}, ("a", 1), "write all of its digits"),
    "rounded bound": ({"a": {"lt": -9007199254740993.0}}, ("a", "lt"), "write all of its digits"),
    "text as a number": ({"a": [{"prefix": 5}]}, ("a", 0, "prefix"), "put it in quotes"),
    "empty prefix": ({"a": {"prefix": ""}}, ("a", "prefix"), "at least 1 character"),
    "empty list": ({"a": []}, ("a",), "at least 1 item"),
    "long list": ({"a": [*range(101)]}, ("a",), "at most 100 items"),
    "list in a list": ({"a": [["x"]]}, ("a", 0), "found a list"),
    "many paths": ({f"p{n}": 1 for n in range(102)}, (), "at most 101 items"),
    "exists with others": ({"a": {"exists": True, "gt": 1}}, ("a",), "leave out `exists: true`"),
    "not exists": ({"a": {"not": {"exists": True}}}, ("a", "not", "exists"), "unknown key"),
    "not not": ({"a": {"not": {"not": 5}}}, ("a", "not", "not"), "unknown key"),
    "a broken pattern": ({"a": {"wildcard": "a\\b"}}, ("a", "wildcard"), "write `\\\\` for one"),
    "a pattern that ends early": ({"a": {"wildcard": ["a\\"]}}, ("a", "wildcard", 0), "write `\\\\` for one"),
    "an empty name": ({"a..b": 1}, ("a..b",), "write one name between two dots"),
    "an empty path": ({"": 1}, ("",), "empty name"),
    "JSONPath": ({"$.a.b": 1}, ("$.a.b",), "write `a.b`"),
    "an unknown option": ({"a": 1, "$bytes": 1}, ("$bytes",), "begins with a name"),
    "an index": ({"a[0].b": 1}, ("a[0].b",), "write `a.b`: any element"),
    "a bracket": ({"a]": 1}, ("a]",), "write `\\]`"),
    "an escape of nothing": ({"a\\b": 1}, ("a\\b",), "write `\\\\` for one"),
    "a long path": ({".".join("a" * 33): 1}, (".".join("a" * 33),), "write 32 at most"),
    "no bytes": ({"a": 1, "$max_bytes": 0}, (), "write one from 1 to 16777216"),
    "too many bytes": ({"a": 1, "$max_bytes": 1 << 30}, (), "write one from 1 to 16777216"),
    "bytes as text": ({"a": 1, "$max_bytes": "5"}, (), "write one from 1 to 16777216"),
}


@pytest.mark.spec("FILT-08")
@pytest.mark.parametrize(("config", "path", "words"), FAULTS.values(), ids=FAULTS.keys())
def test_faults_name_the_place_and_the_remedy(config: Any, path: tuple[Any, ...], words: str) -> None:
    with pytest.raises(ValidationError) as error:
        DataConfig.model_validate(config)
    (finding,) = explain(error.value, config, DataConfig)
    assert finding.path == path
    assert words in f"{finding.message}; {finding.remedy}"


def test_a_star_that_stands_for_itself_is_a_warning() -> None:
    config = DataConfig.model_validate({"a": ["x*", {"prefix": "*"}], "b": {"wildcard": "x*"}})
    ((path, message, remedy),) = config.warnings()
    assert path == ("a",)
    assert "compared as it is" in message
    assert remedy == "write `{wildcard: x*}`"


# -- hostile events ---------------------------------------------------------------------------------------------------

_SIZE = 256 * 1024
HOSTILE: dict[str, bytes] = {
    "elements": b'{"a": [' + b"0," * (_SIZE // 2 - 20) + b"0]}",
    "objects": b'{"a": [' + b'{"b":0},' * (_SIZE // 8 - 20) + b"0]}",
    "fractions": b'{"a": [' + b".1,".join([b"0"] * (_SIZE // 4 - 20)) + b".1]}",
    "one number": b'{"a": ' + b"7" * (_SIZE - 20) + b"}",
    "one fraction": b'{"a": 0.' + b"7" * (_SIZE - 20) + b"}",
    "exponents": b'{"a": [' + b"1e999999999999999999," * (_SIZE // 21 - 20) + b"0]}",
    "open strings": b'{"a": ' + b'["' * (_SIZE // 2 - 20),
    "brackets": b"[" * (_SIZE - 20),
    "backslashes": b'{"a": "' + b"\\" * (_SIZE - 20),
    "one text": b'{"a": "' + b"a" * (_SIZE - 20) + b'"}',
    "halves": b'{"a": "' + b"\\ud800" * (_SIZE // 6 - 20) + b'"}',
    "names": b'{"a": {' + b",".join(b'"%d":0' % n for n in range(_SIZE // 10)) + b"}}",
}
CONDITIONS = {
    "a.b": {"gt": 1},
    "a": [f"x{n}" for n in range(50)] + [{"wildcard": "*a*a*a*a*b"}, {"gt": 10**300}, {"prefix": ["b", "c"], "lt": 0}],
}


@pytest.mark.spec("FILT-09")
@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_event_costs_bounded_time(data: bytes) -> None:
    """Each takes some milliseconds: far below what anything that is quadratic in these sizes takes."""
    assert len(data) <= _SIZE
    made = build(CONDITIONS)
    event_data.release()
    began = time.process_time()
    assert isinstance(made.matches(event(data)), bool)
    assert time.process_time() - began < 2


@pytest.mark.spec("FILT-09")
def test_a_path_looks_at_so_many_values_and_no_more() -> None:
    unreadable = UnreadableData()
    made, there = build({"a": 1}, unreadable), build({"a": {"exists": True}}, unreadable)
    many = event(b'{"a": [' + b"0," * 20_000 + b"1]}")
    assert not made.matches(many)
    assert there.matches(many)
    assert unreadable.counts == {"too_many_values": 1}
    assert "more than 10000 values" in clause_of(made, many).found
    assert made.matches(event(b'{"a": [1' + b",0" * 20_000 + b"]}"))  # found before
    assert made.matches(event(b'{"a": [' + b"0," * 9_997 + b"1]}"))


# -- against a plain reading ------------------------------------------------------------------------------------------

NAMES = ["a", "b", "a.b"]
TEXTS = ["", "a", "ab", "abc", "B", "a*c", "\u00df", "1", "true"]
NUMERALS = ["0", "-0", "1", "1.0", "1e0", "9007199254740992", "9007199254740993", "0.1", "0.10", "-2.5", "1e400"]
WRITTEN = [0, 1, 0.1, -2.5, 9007199254740992, 9007199254740993]
SCALARS = st.sampled_from([*TEXTS, None, True, False, *WRITTEN])


class Numeral(str):
    """A number of JSON text, as it is written."""


VALUES = st.recursive(
    st.sampled_from([*TEXTS, None, True, False, *map(Numeral, NUMERALS)]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=8,
)
_TEXT = st.sampled_from([t for t in TEXTS if t])
_SOME = st.lists(_TEXT, min_size=1, max_size=2) | _TEXT
_COMPARISONS = {
    **dict.fromkeys(("prefix", "suffix", "equals_ignore_case"), _SOME),
    "wildcard": st.sampled_from(["*", "a*", "*c", "a*c", "a\\*c", "*b*", "ab"]),
    **dict.fromkeys(("gt", "gte", "lt", "lte"), st.sampled_from(WRITTEN)),
}
COMPARISONS = st.fixed_dictionaries({}, optional=_COMPARISONS).filter(bool)
EXCLUDED = SCALARS | COMPARISONS | st.lists(SCALARS | COMPARISONS, min_size=1, max_size=2)
OPERATORS = (
    st.fixed_dictionaries({}, optional={**_COMPARISONS, "not": EXCLUDED}).filter(bool)
    | st.builds(lambda there: {"exists": there}, st.booleans())
)  # fmt: skip
CHOICES = SCALARS | OPERATORS
PATHS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map(tuple)
CONFIGS = st.dictionaries(PATHS, CHOICES | st.lists(CHOICES, min_size=1, max_size=3), min_size=1, max_size=2)


def _json(value: Any) -> str:
    if isinstance(value, Numeral):
        return str(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_json, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(k)}: {_json(v)}' for k, v in value.items())}}}"
    return json.dumps(value)


def _led_to(value: Any, path: tuple[str, ...]) -> Iterator[Any]:
    """What the docs say: by name into objects, and into each element of arrays on the way."""
    if not path:
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _led_to(each, path)
    elif isinstance(value, dict) and path[0] in value:
        yield from _led_to(value[path[0]], path[1:])


def _elements(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for each in value:
            yield from _elements(each)
    else:
        yield value


def _number(value: Any) -> Fraction | None:
    if isinstance(value, Numeral):
        return Fraction(str(value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Fraction(Decimal(repr(value)))
    return None


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and not isinstance(value, Numeral)


_PLAIN: dict[str, Callable[[Any, Any], bool]] = {
    "gt": lambda v, o: v > o, "gte": lambda v, o: v >= o, "lt": lambda v, o: v < o, "lte": lambda v, o: v <= o,
    "prefix": str.startswith, "suffix": str.endswith,
    "equals_ignore_case": lambda v, o: v.casefold() == o.casefold(),
    "wildcard": lambda v, o: re.fullmatch(".*".join(map(re.escape, re.split(r"(?<!\\)\*", o))).replace(r"\\\*", r"\*"),
                                          v, re.DOTALL) is not None,
}  # fmt: skip


COMPARED = ("gt", "gte", "lt", "lte")


def _fulfils(value: Any, choice: Any) -> bool:
    if isinstance(choice, dict):
        return all(_operator(value, name, operand) for name, operand in choice.items())
    if _number(choice) is not None:
        return _number(value) == _number(choice)
    if isinstance(choice, str):
        return _is_text(value) and value == choice
    return value is choice


def _operator(value: Any, name: str, operand: Any) -> bool:
    operands = operand if isinstance(operand, list) else [operand]
    if name == "not":
        return not any(_fulfils(value, each) for each in operands)
    if name in COMPARED:
        number = _number(value)
        return number is not None and _PLAIN[name](number, _number(operand))
    return _is_text(value) and any(_PLAIN[name](str(value), each) for each in operands)


def _holds(value: Any, path: tuple[str, ...], condition: Any) -> bool:
    found = [*_led_to(value, path)]
    for choice in condition if isinstance(condition, list) else [condition]:
        if isinstance(choice, dict) and "exists" in choice:
            if choice["exists"] is bool(found):
                return True
        elif any(_fulfils(each, choice) for one in found for each in _elements(one)):
            return True
    return False


INTEGERS = st.integers(-(2**70), 2**70) | st.integers(2**53 - 3, 2**53 + 3)
FRACTIONS = st.sampled_from([0.1, 0.3, -2.5, 1e-7])
AROUND = ["", ".0", "e0", "E+0", ".0000000000000000000001"]


@pytest.mark.slow
@pytest.mark.spec("FILT-04")
@given(wanted=INTEGERS | FRACTIONS, apart=st.integers(-1, 1), end=st.sampled_from(AROUND))
def test_numbers_compare_as_fractions_do(wanted: float, apart: int, end: str) -> None:
    numeral = f"{wanted + apart}{end}" if isinstance(wanted, int) else f"{wanted:.20f}"[: 21 + apart]
    number, other = Fraction(numeral), Fraction(Decimal(repr(wanted)))
    found = {"equal": matches({"n": wanted}, b'{"n": %b}' % numeral.encode())}
    found |= {word: matches({"n": {word: wanted}}, b'{"n": %b}' % numeral.encode()) for word in COMPARED}
    assert found == {"equal": number == other, **{word: _PLAIN[word](number, other) for word in COMPARED}}


@pytest.mark.slow
@pytest.mark.spec("FILT-01", "FILT-02", "FILT-03", "FILT-04")
@given(value=VALUES, config=CONFIGS)
def test_it_matches_what_a_plain_reading_says(value: Any, config: dict[tuple[str, ...], Any]) -> None:
    written = {".".join(name.replace(".", "\\.") for name in path): condition for path, condition in config.items()}
    expected = all(_holds(value, path, condition) for path, condition in config.items())
    assert matches(written, _json(value).encode()) is expected
