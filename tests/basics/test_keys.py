"""Key mappers: which key a record gets, and that nothing else changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gateway_basics import jsonpath
from gateway_testing import FakeClock
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gateway_core.contract.component import BuildContext, KeyMapperRef
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import KeyMapper
from tests.budget import examples
from tests.installed import REGISTRY

CONTEXT = BuildContext("test", Path(), FakeClock(), REGISTRY)
JSON = {"datacontenttype": "application/json"}
ORDER = (
    b'{ "id": "o-1", "customer": {"id": 7, "the \\u006eame": "\xc3\xa9", "vip": true, "none": null},'
    b' "lines": [{"n": 1.50}, 2] }'
)


def mapper(config: Any) -> KeyMapper:
    built: KeyMapper = CONTEXT.build(KeyMapperRef.parse(config))
    return built


BY_ATTRIBUTE: dict[str, tuple[Any, dict[str, Any], bytes | None]] = {
    "record": ("record", {"partitionkey": "k"}, b"its own"),
    "none": ("none", {"partitionkey": "k"}, None),
    "partitionkey": ("partitionkey", {"partitionkey": "k é"}, "k é".encode()),
    "partitionkey missing": ("partitionkey", {}, b"its own"),
    "partitionkey empty": ("partitionkey", {"partitionkey": ""}, b""),
    "attribute": ({"attribute": {"name": "subject"}}, {"subject": "s"}, b"s"),
    "attribute in short": ({"attribute": "n"}, {"n": 5}, b"5"),
    "attribute missing": ({"attribute": "n"}, {}, None),
    "Kafka header": ({"header": "ce_subject"}, {"subject": "s"}, b"s"),
    "HTTP header": ({"header": {"name": "Ce-Subject"}}, {"subject": "s é"}, "s é".encode()),
    "header of 0.1": ({"header": "ce_eventType"}, {"eventType": "t"}, b"t"),
    "header missing": ({"header": "ce_subject"}, {"id": "1"}, None),
    "content type": ({"header": "Content-Type"}, {"datacontenttype": "text/plain"}, b"text/plain"),
    "content type of 0.1": ({"header": "content-type"}, {"contentType": "text/plain"}, b"text/plain"),
}


@pytest.mark.parametrize(("config", "attributes", "key"), BY_ATTRIBUTE.values(), ids=BY_ATTRIBUTE.keys())
def test_keys_from_attributes(config: Any, attributes: dict[str, Any], key: bytes | None) -> None:
    event = Event(dict(attributes), b"data", key=b"its own")
    assert mapper(config)(event) == key
    assert event == Event(attributes, b"data", key=b"its own")  # never changed


@pytest.mark.parametrize("config", ["record", "partitionkey"])
def test_no_key_stays_no_key(config: str) -> None:
    assert mapper(config)(Event({"id": "1"})) is None


FROM_DATA: dict[str, tuple[str, bytes | None]] = {
    "string": ("$.id", b"o-1"),
    "number": ("$.customer.id", b"7"),
    "number as it is written": ("$.lines[0].n", b"1.50"),
    "boolean": ("$['customer'].vip", b"true"),
    "quoted name": ('$["customer"]["the name"]', "é".encode()),
    "from the end": ("$.lines[-1]", b"2"),
    "blanks": ("$ .lines [ 1 ]", b"2"),
    "null": ("$.customer.none", None),
    "object": ("$.customer", None),
    "array": ("$.lines", None),
    "no such member": ("$.customer.name", None),
    "no such element": ("$.lines[2]", None),
    "element of an object": ("$.customer[0]", None),
    "member of a string": ("$.id.x", None),
}


@pytest.mark.parametrize(("path", "key"), FROM_DATA.values(), ids=FROM_DATA.keys())
def test_keys_from_json_data(path: str, key: bytes | None) -> None:
    event = Event({"id": "1", **JSON}, ORDER, key=b"its own")
    assert mapper({"jsonpath": path})(event) == key
    assert event == Event({"id": "1", **JSON}, ORDER, key=b"its own")
    required = mapper({"jsonpath": {"path": path, "required": True}})
    if key is not None:
        assert required(event) == key
    else:
        with pytest.raises(Refused, match=r"the record key needs a string, number or boolean at \$"):
            required(event)


DATA: dict[str, tuple[Event, bytes | None]] = {
    "json by type": (Event({"datacontenttype": "text/x+JSON; charset=utf-8"}, b'"k"'), b"k"),
    "json without type": (Event({}, b'"k"', json_data=True), b"k"),
    "json of 0.1": (Event({"contentType": "application/json"}, b'"k"'), b"k"),
    "other type": (Event({"datacontenttype": "text/plain"}, b'"k"'), None),
    "no type": (Event({}, b'"k"'), None),
    "no data": (Event(JSON), None),
    "empty": (Event(JSON, b""), None),
    "no JSON": (Event(JSON, b'"k'), None),
    "two values": (Event(JSON, b'"k" "l"'), None),
    "not UTF-8": (Event(JSON, b'"\xff"'), None),
    "half a pair": (Event(JSON, b'"\\ud800"'), rb"\ud800"),
    "empty string": (Event(JSON, b' "" '), b""),
    "deep": (Event(JSON, b"[" * 100_000), None),
}


@pytest.mark.parametrize(("event", "key"), DATA.values(), ids=DATA.keys())
def test_only_json_data_is_looked_into(event: Event, key: bytes | None) -> None:
    assert mapper({"jsonpath": "$"})(event) == key


@pytest.mark.parametrize(
    ("config", "attribute"),
    [({"attribute": {"name": "n", "required": True}}, "n"), ({"header": {"name": "ce_n", "required": True}}, "n")],
)
def test_a_key_that_is_required_and_missing_is_refused(config: Any, attribute: str) -> None:
    assert mapper(config)(Event({"n": True})) == b"true"
    with pytest.raises(Refused) as refused:
        mapper(config)(Event({"id": "1"}))
    assert refused.value.attribute == attribute


FAULTS: dict[str, tuple[Any, str]] = {
    "header that is not kept": ({"header": "x-tenant"}, "events only keep the headers"),
    "header without a name": ({"header": "ce_"}, "events only keep the headers"),
    "path from nowhere": ({"jsonpath": "a.b"}, "begins with"),
    "path to many": ({"jsonpath": "$.a[*]"}, r"'\[\*\]' is neither"),
    "path to descendants": ({"jsonpath": "$..a"}, "is neither"),
    "slice": ({"jsonpath": "$[1:2]"}, "is neither"),
    "union": ({"jsonpath": "$['a','b']"}, "is neither"),
    "dash in a short name": ({"jsonpath": "$.a-b"}, "'-b' is neither"),
    "leading zero": ({"jsonpath": "$[01]"}, "is neither"),
    "unknown escape": ({"jsonpath": r"$['\q']"}, "is not a name"),
    "blank at the end": ({"jsonpath": "$.a "}, "is neither"),
}


@pytest.mark.parametrize(("config", "says"), FAULTS.values(), ids=FAULTS.keys())
def test_faults_in_options_are_told(config: Any, says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        mapper(config)


NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


def quoted(name: str, mark: str) -> str:
    text = json.dumps(name)[1:-1]
    return f'["{text}"]' if mark == '"' else "['{}']".format(text.replace(r"\"", '"').replace("'", r"\'"))


@pytest.mark.slow
@examples(100)
@given(VALUES, st.data())
def test_any_value_is_found_where_it_is(value: Any, data: st.DataObject) -> None:
    """A random walk into random JSON: the path of the walk finds what the walk found."""
    path, found = "$", value
    while isinstance(found, dict | list) and found and data.draw(st.booleans()):
        if isinstance(found, list):
            at = data.draw(st.integers(-len(found), len(found) - 1))
            path, found = f"{path}[{at}]", found[at]
        else:
            name = data.draw(st.sampled_from(sorted(found)))
            path, found = path + quoted(name, data.draw(st.sampled_from("\"'"))), found[name]
    text = json.dumps(value, ensure_ascii=data.draw(st.booleans()), indent=data.draw(st.sampled_from([None, 1])))
    read = jsonpath.reader(path)(text.encode())
    assert read is not None
    assert json.loads(bytes(read)) == found
    key = mapper({"jsonpath": path})(Event(JSON, text.encode()))
    if isinstance(found, str):
        assert key == found.encode()
    elif found is None or isinstance(found, dict | list):
        assert key is None
    else:
        assert key == json.dumps(found).encode()


SEGMENTS = st.sampled_from([".a", "['']", '["\\""]', r"['\'\u0061']", "[0]", "[-1]", " ", "..a", "[*]", "['a\\"])


@pytest.mark.slow
@examples(200)
@given(
    st.lists(SEGMENTS | st.text(max_size=3), max_size=3).map(lambda parts: "$" + "".join(parts)),
    st.binary(max_size=12) | st.sampled_from([b'{"a":[{"b":"x"}]}', b'["a",{"":1}]', b'{"a":{"a":']),
)
def test_any_path_is_read_or_refused_and_never_fails_on_data(path: str, data: bytes) -> None:
    try:
        jsonpath.parse(path)
    except ValueError:
        return
    found = jsonpath.reader(path)(data)
    assert found is None or bytes(found) in data


HARD = {
    "half a pair beside it": b'{"k":"x","o":"\\ud800"}',
    "half a pair before it": b'{"o":["\\uDC00 \\ud800"],"k":"x"}',
    "nested deeply beside it": b'{"k":"x","o":' + b"[" * 1500 + b"]" * 1500 + b"}",
    "both": b'{"o":' + b'{"a":' * 1500 + b'"\\ud800"' + b"}" * 1500 + b',"k":"x"}',
    "a byte-order mark": b'\xef\xbb\xbf{"k":"x"}',
    "twice": b'{"k":"y","o":"\\ud800","k":"x"}',
    "a number out of range beside it": b'{"o":1e999,"k":"x"}',
}


@pytest.mark.spec("SAFE-106")
@pytest.mark.parametrize("data", HARD.values(), ids=HARD.keys())
def test_other_values_do_not_cost_the_key(data: bytes) -> None:
    assert mapper({"jsonpath": "$.k"})(Event({}, data, json_data=True)) == b"x"
    assert mapper({"jsonpath": "$[1].k"})(Event({}, b"[1,%b]" % data.removeprefix(b"\xef\xbb\xbf"), True)) == b"x"


@pytest.mark.spec("SAFE-106")
def test_a_key_with_half_a_surrogate_pair_is_one() -> None:
    key = mapper({"jsonpath": {"path": "$.k", "required": True}})
    assert key(Event({}, b'{"k":"a\\uD800"}', True)) == key(Event({}, b'{"k":"\\u0061\\ud800"}', True)) == rb"a\ud800"


@pytest.mark.spec("SAFE-106")
@pytest.mark.parametrize("data", [b'{"k":"x","o":"\\ud800}', b'{"k":"x"' + b"[" * 1500, b'{"k":"x","o":"\xff"} x', b""])
def test_data_that_is_no_json_has_no_key(data: bytes) -> None:
    assert mapper({"jsonpath": "$.k"})(Event({}, data, json_data=True)) is None
