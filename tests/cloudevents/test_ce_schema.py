"""Every structured event of 1.0 that is written satisfies the JSON schema of the CloudEvents repository.

The facts below are those of `cloudevents/formats/cloudevents.json` in github.com/cloudevents/spec, tag ce@v1.0.2:
which members are required, their types, least lengths and formats.
"""

from __future__ import annotations

import base64
import json
from datetime import datetime
from typing import Any

import pytest
from gateway_cloudevents import values
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from jsonschema import Draft7Validator, FormatChecker

from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
from tests.budget import examples


def _text(optional: bool, **rules: Any) -> dict[str, Any]:
    return {"type": ["string", "null"] if optional else "string", "minLength": 1, **rules}


SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["id", "source", "specversion", "type"],
    "properties": {
        "id": _text(False),
        "source": _text(False, format="uri-reference"),
        "specversion": _text(False),
        "type": _text(False),
        "datacontenttype": _text(True),
        "dataschema": _text(True, format="uri"),
        "subject": _text(True),
        "time": _text(True, format="date-time"),
        "data": {"type": ["object", "string", "number", "array", "boolean", "null"]},
        "data_base64": {"type": ["string", "null"], "contentEncoding": "base64"},
    },
}

FORMATS = FormatChecker(formats=())


@FORMATS.checks("date-time", raises=ValueError)
def _is_date_time(value: Any) -> bool:
    """RFC 3339 by Python's parser, which is none of ours; a leap second it does not know."""
    return isinstance(value, str) and "T" in value and datetime.fromisoformat(value).tzinfo is not None


@FORMATS.checks("uri")
def _is_uri(value: Any) -> bool:
    return _is_reference(value) and ":" in value.partition("/")[0]


@FORMATS.checks("uri-reference")
def _is_reference(value: Any) -> bool:
    return isinstance(value, str) and not set(value) & set(' "<>\\^`{|}') and value.count("#") <= 1


VALID = Draft7Validator(SCHEMA, format_checker=FORMATS)

WORDS = st.text(st.characters(exclude_categories=("Cs", "Cc", "Cn")), min_size=1, max_size=20)
ATTRIBUTES = st.fixed_dictionaries(
    {
        "specversion": st.just("1.0"),
        "id": WORDS,
        "type": WORDS,
        "source": WORDS.filter(lambda t: not values.check_uri_reference(t)) | st.sampled_from(["/a#b", "urn:a:b"]),
    },
    optional={
        "subject": WORDS,
        "time": st.datetimes().map(lambda t: t.isoformat() + "Z"),
        "dataschema": st.sampled_from(["http://example.com/schema", "urn:a:b"]),
        "datacontenttype": st.sampled_from(["application/json", "text/plain", "image/png", "a/b; c=d"]),
        "extension": WORDS | st.integers(-(2**31), 2**31 - 1) | st.booleans(),
    },
)
DATA = st.none() | st.binary() | st.sampled_from([b"{}", b"[1]", b"null", b"1.5", b'"x"', b"true", b"text"])
FEW = examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.spec("BR-16", "DP-03")
@FEW
@given(attributes=ATTRIBUTES, data=DATA, is_json=st.booleans())
def test_what_is_written_satisfies_the_schema(
    make_codec: Any, attributes: dict[str, Any], data: bytes | None, is_json: bool
) -> None:
    written = json.loads(make_codec("structured").encode(Event(attributes, data, is_json)).body)
    VALID.validate(written)
    if "data_base64" in written:
        assert base64.b64decode(written["data_base64"], validate=True) == data


BROKEN: dict[str, dict[str, Any]] = {
    "no id": {"id": None},
    "empty type": {"type": ""},
    "source with a space": {"source": "a b"},
    "time": {"time": "now"},
    "dataschema": {"dataschema": "no schema"},
    "subject": {"subject": ""},
    "specversion a number": {"specversion": 1},
}


@pytest.mark.spec("BR-15")
@pytest.mark.parametrize("changes", BROKEN.values(), ids=BROKEN.keys())
def test_what_the_schema_refuses_is_not_passed_on(codec: Any, changes: dict[str, Any]) -> None:
    members = {"specversion": "1.0", "id": "1", "source": "/", "type": "t", **changes}
    assert not VALID.is_valid(members)
    message = Message([(b"content-type", b"application/cloudevents+json")], json.dumps(members).encode())
    if changes.keys() & {"time", "dataschema", "subject"}:  # optional: what is passed on satisfies the schema
        [event] = codec.decode(message)
        VALID.validate(event.attributes)
        return
    with pytest.raises(Refused) as refused:
        codec.decode(message)
    assert refused.value.attribute in changes
