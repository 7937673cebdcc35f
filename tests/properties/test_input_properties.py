"""What `tidegate send` reads."""

from __future__ import annotations

import io
import json
from typing import Any

import msgspec
import pytest
import typer
from gateway_cloudevents import event_files
from gateway_http.cli import events
from gateway_http.cli.post import check_url
from hypothesis import given
from hypothesis import strategies as st

from gateway_core.contract.cli.common import CommandError
from tests.budget import examples

QUICK = examples(60)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
OBJECTS = st.dictionaries(
    TEXT, st.one_of(TEXT, st.integers(-9, 9), st.booleans(), st.lists(TEXT, max_size=2)), max_size=3
)
PIECES = [b"[", b"]", b"{}", b'{"a":1}', b'{"\xff":1}', b'{"a"', b":", b",", b"1", b"\n", b" ", b"{" * 5000]
BLANK = st.sampled_from(["", " ", "\t", "\r"])


def read(text: str | bytes) -> list[bytes]:
    return list(event_files.read(io.BytesIO(text.encode() if isinstance(text, str) else text), "in.json"))


@QUICK
@given(st.lists(OBJECTS, max_size=5), BLANK, st.booleans())
def test_events_one_a_line(objects: list[dict[str, Any]], blank: str, ended: bool) -> None:
    lines = [blank + json.dumps(o, ensure_ascii=False) + blank for o in objects]
    text = f"\n{blank}\n".join(lines) + ("\n" if ended else "")
    assert [json.loads(t) for t in read(text)] == objects


@QUICK
@given(st.lists(OBJECTS, max_size=5), st.sampled_from([None, 1, 2]))
def test_events_in_an_array_or_alone(objects: list[dict[str, Any]], indent: int | None) -> None:
    assert [json.loads(t) for t in read(json.dumps(objects, indent=indent))] == objects
    if objects:
        assert [json.loads(t) for t in read(json.dumps(objects[0], indent=indent))] == objects[:1]


@pytest.mark.slow
@examples(150)
@given(st.binary(max_size=30) | st.lists(st.sampled_from(PIECES), max_size=8).map(b"".join))
def test_any_bytes_are_events_or_a_fault_that_names_the_file(data: bytes) -> None:
    found, fault = [], "in.json"
    try:
        found = read(data)
    except CommandError as e:
        fault = str(e)
    assert fault.startswith("in.json")
    assert all(isinstance(msgspec.json.decode(text), dict) for text in found)


@QUICK
@given(
    TEXT,
    # a file, or what has to be JSON then
    st.none() | TEXT.filter(lambda t: t.lstrip()[:1] not in ("@", "{", "[")),
    st.lists(st.text("ab=1", max_size=5), max_size=3),
)
def test_an_event_from_flags_has_what_was_given(type: str, data: str | None, extensions: list[str]) -> None:
    flags = {"type": type, "source": "/s", "subject": None}
    if any(not name or not equals for name, equals, _ in (e.partition("=") for e in extensions)):
        with pytest.raises(typer.BadParameter, match="NAME=VALUE"):
            events.from_flags(flags, data, extensions)
        return
    event = events.from_flags(flags, data, extensions)
    given = {"type": type, "source": "/s", **dict(e.split("=", 1) for e in extensions)}
    assert {name: event.attributes[name] for name in given} == given
    assert event.data == (None if data is None else data.encode())
    assert ("datacontenttype" in event.attributes) == (data is not None)


@QUICK
@given(st.text("htps:/?#@[]a.1%é \n", max_size=20) | st.text(max_size=8))
def test_any_text_is_an_http_url_or_refused_by_name(text: str) -> None:
    fault = repr(text)
    try:
        assert check_url(text) == text
        assert text.lower().startswith(("http:", "https:"))
    except ValueError as e:
        fault = str(e)
    assert repr(text) in fault
