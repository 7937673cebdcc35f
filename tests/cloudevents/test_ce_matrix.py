"""The whole matrix: what is written is read, for every version, mode and binding, and no event changes its version."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from gateway_cloudevents.bindings import HTTP, KAFKA
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from gateway_core.contract.event import Event, Message
from tests.budget import examples

TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc", "Cn")), min_size=1, max_size=20)
TRICKY = st.sampled_from(
    ['"', '""', "5", "-0", "true", "null", "{}", '{"a":1}', "[", " 5 ", "%41", "50%", "a b", "1e5"]
)
WORDS = TEXT | TRICKY
INTEGER = st.integers(-(2**31), 2**31 - 1)
SCALAR = WORDS | INTEGER | st.booleans()
LOWER = st.from_regex("[a-z][a-z0-9]{0,15}", fullmatch=True)
CAMEL_KEY = st.from_regex("[a-z][A-Za-z0-9]{0,15}", fullmatch=True)
TIME = st.datetimes().map(lambda t: t.isoformat() + "Z")
ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
MAP = st.dictionaries(LOWER, ANY, max_size=3) | st.dictionaries(WORDS, ANY, min_size=1, max_size=3)
JSON_TYPES = st.sampled_from(["application/json", "text/json; charset=utf-8", "application/x+json"])
SOURCE = st.sampled_from(["/", "/mycontext", "https://example.com/a?b=c#d", "urn:uuid:1", "/straße", "%41"])
DEFINED = {"specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema", "data",
           "schemaurl", "datacontentencoding", "contenttype"}  # fmt: skip
CAMEL_DEFINED = {"cloudeventsversion", "eventid", "source", "eventtype", "eventtypeversion", "eventtime", "schemaurl",
                 "contenttype", "extensions", "data", "specversion",
                 "iofnprojectdeadline", "iofnprojecthttpreq", "iofnprojecthttpresp"}  # fmt: skip

Draw = Callable[[st.SearchStrategy[Any]], Any]


def _lower(word: str, content_type: str, optional: dict[str, Any], values: dict[str, st.SearchStrategy[Any]]) -> Any:
    """A recipe for events whose names are lower-case: `values` are those of extensions by mode."""

    def recipe(draw: Draw, mode: str) -> dict[str, Any]:
        attributes = draw(
            st.fixed_dictionaries(
                {"specversion": st.just(word), "id": WORDS, "source": SOURCE, "type": WORDS}, optional=optional
            )
        )
        names = LOWER.filter(lambda n: n not in DEFINED)
        extensions: dict[str, Any] = draw(st.dictionaries(names, values[mode], max_size=4))
        return {**extensions, **attributes}

    return recipe, content_type


def _camel(draw: Draw, mode: str) -> dict[str, Any]:
    attributes: dict[str, Any] = draw(
        st.fixed_dictionaries(
            {"cloudEventsVersion": st.just("0.1"), "eventID": WORDS, "source": SOURCE, "eventType": WORDS},
            optional={"eventTypeVersion": WORDS, "eventTime": TIME, "schemaURL": SOURCE},
        )
    )
    # an extension at the top is what the gateway adds to a dead letter
    names = LOWER.filter(lambda n: n not in CAMEL_DEFINED)
    attributes |= draw(st.dictionaries(names, SCALAR, max_size=1))
    keys = WORDS if mode == "structured" else CAMEL_KEY
    extensions: dict[str, Any] = {}
    taken = {*CAMEL_DEFINED, "id", "type", "time", "datacontenttype", "dataschema", "database64", *attributes}
    for name, value in draw(st.dictionaries(keys, ANY, max_size=4)).items():
        plain = re.sub("[^a-z0-9]", "", name.casefold())
        if not taken & {plain, name.casefold()}:  # an extension has a name of its own, however it is spelt
            extensions[name] = value
            taken.add(name.casefold())
    if extensions:
        attributes["extensions"] = extensions
    return attributes


NEW = {"subject": WORDS, "time": TIME, "dataschema": st.sampled_from(["http://example.com/schema", "urn:a:b"])}
V0_3 = {"subject": WORDS, "time": TIME, "schemaurl": SOURCE}
OLD = {"time": TIME, "schemaurl": st.sampled_from(["http://example.com/schema", "urn:a:b"])}
# headers of 1.0 and 0.3 carry text alone, and 0.3's maps are members of headers of their own
V1_VALUES = {"structured": SCALAR, "binary": WORDS}
V0_3_VALUES = {"structured": SCALAR | MAP, "binary": WORDS}
TYPED = {"structured": SCALAR | MAP, "binary": SCALAR | MAP}
RECIPES: dict[str, tuple[Callable[[Draw, str], dict[str, Any]], str]] = {
    "1.0": _lower("1.0", "datacontenttype", NEW, V1_VALUES),
    "0.3": _lower("0.3", "datacontenttype", V0_3, V0_3_VALUES),
    "0.2": _lower("0.2", "contenttype", OLD, TYPED),
    "0.1": _lower("0.1", "contenttype", OLD, TYPED),
    "0.1 released": (_camel, "contentType"),
}
MODES = ("binary", "structured")
BINDINGS = {"http": HTTP, "kafka": KAFKA}
JSON_BYTES = ANY.map(lambda value: json.dumps(value).encode())


@st.composite
def events(draw: st.DrawFn, version: str, mode: str) -> Event:
    """Events that the mode can say: with JSON data, text, bytes or none."""
    recipe, content_type = RECIPES[version]
    attributes = recipe(draw, mode)
    # without a type, JSON and plain bytes differ by `json_data`; for 0.1 and 0.2 bytes need a type (or get one)
    untyped = st.tuples(st.none(), JSON_BYTES, st.just(True)) if mode == "structured" else st.nothing()
    kind, data, is_json = draw(
        st.tuples(JSON_TYPES, JSON_BYTES, st.just(False))
        | st.tuples(st.just("text/plain"), st.text().map(lambda t: t.encode(errors="ignore")), st.just(False))
        | st.tuples(st.sampled_from(["image/png", "text/a; charset=iso-8859-1"]), st.binary(), st.just(False))
        | st.tuples(st.none(), st.none(), st.just(False))
        | untyped
    )
    if kind is not None:
        attributes[content_type] = kind
    return Event({n: attributes[n] for n in draw(st.permutations(list(attributes)))}, data, is_json)


MATRIX = [(v, m, b) for v in RECIPES for m in MODES for b in BINDINGS]
FEW = examples(20, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.slow
@pytest.mark.spec("BR-11", "BR-16", "CE1-01", "CE1-07", "CE1-08", "CE1-11", "FN-01")
@pytest.mark.parametrize(("version", "mode", "binding"), MATRIX, ids=["-".join(cell) for cell in MATRIX])
@FEW
@given(data=st.data())
def test_what_is_written_is_read(make_codec: Any, version: str, mode: str, binding: str, data: st.DataObject) -> None:
    event = data.draw(events(version, mode))
    codec = make_codec(mode, BINDINGS[binding])
    [read] = codec.decode(codec.encode(event))
    assert read == event
    assert _types(read.attributes) == _types(event.attributes)
    assert read.json_data == event.json_data


@pytest.mark.slow
@pytest.mark.spec("BR-11", "CE1-01", "DP-02")
@FEW
@given(data=st.data())
def test_a_batch_keeps_every_events_version(make_codec: Any, data: st.DataObject) -> None:
    sent = [data.draw(events(v, "structured")) for v in data.draw(st.lists(st.sampled_from(list(RECIPES))))]
    codec = make_codec("structured")
    body = b"[%b]" % b",".join(codec.encode(e).body for e in sent)
    assert codec.decode(Message([(b"content-type", b"application/cloudevents-batch+json")], body)) == sent


@pytest.mark.slow
@pytest.mark.spec("BR-11", "BR-16", "CE1-07")
@pytest.mark.parametrize("version", RECIPES)
@FEW
@given(data=st.data())
def test_from_structured_to_binary_and_back_nothing_is_lost(make_codec: Any, version: str, data: st.DataObject) -> None:
    """As an event goes whose subscriber gets headers: HTTP makes their names lower-case on the way."""
    event = data.draw(events(version, "binary"))
    structured, binary = make_codec("structured"), make_codec("binary")
    [first] = structured.decode(structured.encode(event))
    sent = binary.encode(first)
    [last] = binary.decode(Message([(n.lower(), v) for n, v in sent.headers], sent.body))
    expected = event.attributes
    if "extensions" in expected:  # of names that no table knows
        last.attributes["extensions"] = {k.lower(): v for k, v in last.attributes["extensions"].items()}
        expected = {**expected, "extensions": {k.lower(): v for k, v in expected["extensions"].items()}}
    assert (last.attributes, last.data) == (expected, event.data)


def _types(value: Any) -> Any:
    """The types of values all the way down: Python takes True, 1 and 1.0 for equal."""
    if isinstance(value, dict):
        return {k: _types(v) for k, v in value.items()}
    return [_types(v) for v in value] if isinstance(value, list) else type(value)
