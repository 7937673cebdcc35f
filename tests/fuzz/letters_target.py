"""Lines of a dead-letter file: any line is a dead letter that can be written again, or a `ValueError`."""

from __future__ import annotations

from gateway_deadletter import line
from gateway_deadletter.encryption import Keys

from gateway_core.contract.event import Event

_KEYS = Keys([bytes(range(32))])


def check(data: bytes) -> None:
    """Raises where something does not hold."""
    text = data.replace(b"\n", b" ")
    known = line.id_of(text)
    for keys in (None, _KEYS):
        try:
            id_, event = line.read(text, keys)
        except ValueError as e:
            if not str(e):
                raise AssertionError("it is not said why") from e
        else:
            assert known == id_, "the list has another id than the letter"
            _check_again(event)
            assert line.read(text, keys)[0] == id_


def _check_again(event: Event) -> None:
    try:
        again = line.write(event, 1_700_000_000_000_000_000)
    except ValueError:
        return
    assert b"\n" not in again
    _, back = line.read(again)
    assert (back.attributes, back.data, back.json_data, back.key) == _facts(event)
    assert back.trace == event.trace
    sealed = line.write(event, 1_700_000_000_000_000_000, _KEYS)
    _, opened = line.read(sealed, _KEYS)
    assert (opened.attributes, opened.data, opened.json_data, opened.key) == _facts(event)


def _facts(event: Event) -> tuple[object, ...]:
    return (event.attributes, event.data, event.json_data, event.key)


_EVENT = Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "tidegateattempts": 3}, b"abc")
_KEYED = Event(
    {"id": "1", "datacontenttype": "text/plain", "data": 5}, b"abc", key=b"\0", received_ns=10**18, trace="00-1"
)
SEEDS = [
    line.write(_EVENT, 5),
    line.write(_KEYED, 5),
    line.write(_EVENT, 5, _KEYS),
    line.write(Event({"datacontenttype": "application/json", "n": 1.5, "m": {"a": [1]}}, b'{"a":1}'), 5),
    line.write(Event({"id": "1"}, b"[1]", True), 5),
    b'{"event":{"id":"1","data":"x","datacontenttype":"text/plain"},"key_base64":"AA=="}',
    b'{"event":{"data_base64":"AAEC","json_data":true,"other_attributes":{"data":1}}}',
    b'{"id":"1","event":[]}',
    b'{"event":null}',
    b"",
]
WORDS = [
    *(b'"event":{', b'"id":"1"', b'"key":"', b'"encrypted":"', b'"key_base64":"AA=="', b'"received":"', b'"trace":"'),
    *(b'"data":', b'"data_base64":"', b'"json_data":true', b'"other_attributes":{', b'"datacontenttype":"text/plain"'),
    *(b"application/json", b"2001-01-01T00:00:00.5Z", b"\\ud800", b"\\n", b"null", b"1e999", b"[", b"]", b"{", b"}"),
    *(b"==",),
]  # fmt: skip
