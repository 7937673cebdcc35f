"""Signed requests: header fields of any content are refused, and none is let in that was not signed.

An input is a byte that names the scheme (modulo their number), lines of `name:value`, an empty line, and the body. `$`
in the signature's field is the right one.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gateway_testing import FakeClock

from gateway_core.config.registry import Registry
from gateway_core.contract.authenticator import Unauthenticated
from gateway_core.contract.component import BuildContext
from gateway_core.contract.event import Message

NOW = 1_700_000_000
WINDOW = 300
_SECRET = b"a secret of many bytes, nobody knows"
_REGISTRY = Registry.installed()
Fields = list[tuple[bytes, bytes]]


def _made(name: str, **options: Any) -> Any:
    offer = _REGISTRY.find("authenticator", name)
    assert offer is not None
    context = BuildContext("fuzz", Path(), FakeClock(NOW), _REGISTRY)
    return offer.component.build(offer.component.model.model_validate(options), context)


def _once(fields: Fields, name: bytes) -> bytes:
    return next((value for field, value in fields if field == name), b"")


def _sha256(content: bytes) -> bytes:
    return hmac.digest(_SECRET, content, "sha256")


def _hex(content: Callable[[Fields, bytes], bytes]) -> Callable[[Fields, bytes], bytes]:
    return lambda fields, body: _sha256(content(fields, body)).hex().encode()


def _stripe_time(fields: Fields) -> bytes:
    parts = [part.strip(b" \t").partition(b"=") for part in _once(fields, b"stripe-signature").split(b",")]
    return next((value for name, _, value in parts if name == b"t"), b"")


_PLAIN = {"secrets": [_SECRET.decode()]}
_WHSEC = "whsec_" + base64.b64encode(_SECRET).decode()
_SCHEMES: list[tuple[Any, bytes, Callable[[Fields, bytes], bytes]]] = [
    (_made("hmac", preset="github", **_PLAIN), b"x-hub-signature-256", _hex(lambda fields, body: body)),
    (
        _made("hmac", preset="stripe", **_PLAIN),
        b"stripe-signature",
        _hex(lambda f, body: _stripe_time(f) + b"." + body),
    ),
    (
        _made("hmac", preset="slack", **_PLAIN),
        b"x-slack-signature",
        _hex(lambda fields, body: b"v0:" + _once(fields, b"x-slack-request-timestamp") + b":" + body),
    ),
    (
        _made("hmac", preset="shopify", **_PLAIN),
        b"x-shopify-hmac-sha256",
        lambda fields, body: base64.b64encode(_sha256(body)),
    ),
    (
        _made("standard_webhooks", secrets=[_WHSEC]),
        b"webhook-signature",
        lambda fields, body: base64.b64encode(
            _sha256(b".".join([_once(fields, b"webhook-id"), _once(fields, b"webhook-timestamp"), body]))
        ),
    ),
]
_TIMES: list[Callable[[Fields], bytes]] = [
    lambda fields: b"",
    _stripe_time,
    lambda fields: _once(fields, b"x-slack-request-timestamp"),
    lambda fields: b"",
    lambda fields: _once(fields, b"webhook-timestamp"),
]


def check(data: bytes) -> None:
    """Raises where something does not hold."""
    which = (data[0] if data else 0) % len(_SCHEMES)
    authenticator, header, sign = _SCHEMES[which]
    head, _, body = data[1:].partition(b"\n\n")
    written = [line.partition(b":") for line in head.split(b"\n") if line]
    fields = [(name.lower(), value) for name, _, value in written]
    right = sign(fields, body)
    fields = [(name, value.replace(b"$", right) if name == header else value) for name, value in fields]
    request = Message(fields, body)
    try:
        found = authenticator.authenticate(request)
    except Unauthenticated as e:
        refused = e
    else:
        _check_known(which, header, fields, right, found)
        return
    assert refused.status == 401
    assert 0 < len(refused.detail) < 300
    assert right.decode() not in refused.detail


def _check_known(which: int, header: bytes, fields: Fields, right: bytes, found: Any) -> None:
    if found is None:
        assert all(name != header for name, _ in fields), "a signature is not looked at"
        return
    signatures = [value for name, value in fields if name == header]
    assert len(signatures) == 1, "which of them was checked?"
    assert right in signatures[0], "let in without the right signature"
    assert not [n for n, _ in fields if n[:3] == b"ce-"] or any(
        name == b"content-type" and value.lstrip().lower().startswith(b"application/cloudevents")
        for name, value in fields
    ), "attributes that were not signed are taken"
    time = _TIMES[which](fields)
    if which in (1, 2, 4):
        assert abs(int(time) - NOW) <= WINDOW, "let in outside the window"
    if which == 4:
        assert b"." not in _once(fields, b"webhook-id")


_EVENT = b'{"specversion":"1.0","id":"1","source":"/s","type":"t"}'
_TIME = b"%d" % NOW
SEEDS = [
    b"\0x-hub-signature-256:sha256=$\n\n" + _EVENT,
    b"\0x-hub-signature-256:sha256=" + b"a" * 64 + b"\n\n" + _EVENT,
    b"\0x-hub-signature-256:sha256=$\nce-id:1\ncontent-type:application/cloudevents+json\n\n" + _EVENT,
    b"\0x-hub-signature-256:sha256=$\nce-id:1\n\nabc",
    b"\0x-hub-signature-256:$\nx-hub-signature-256:sha256=$\n\nabc",
    b"\1stripe-signature:t=" + _TIME + b",v1=$,v0=$\n\nabc",
    b"\1stripe-signature:t=1,t=" + _TIME + b", v1=aa,v1=$\n\nabc",
    b"\1stripe-signature:" + b"v1=aa," * 20 + b"v1=$,t=" + _TIME + b"\n\nabc",
    b"\2x-slack-signature:v0=$\nx-slack-request-timestamp:" + _TIME + b"\n\nabc",
    b"\2x-slack-signature:v0=$\nx-slack-request-timestamp:0" + _TIME + b"\n\nabc",
    b"\2x-slack-signature:v0=$\nx-slack-request-timestamp:1699990000\n\nabc",
    b"\3x-shopify-hmac-sha256:$\n\nabc",
    b"\3x-shopify-hmac-sha256:=$==\n\nabc",
    b"\4webhook-id:msg_1\nwebhook-timestamp:" + _TIME + b"\nwebhook-signature:v1,$ v1a,xx v2,$\n\nabc",
    b"\4webhook-id:a.b\nwebhook-timestamp:" + _TIME + b"\nwebhook-signature:v1,$\n\nabc",
    b"\4webhook-id:\nwebhook-timestamp:9\nwebhook-signature:v1,\n\nabc",
    b"\4other:1\n\nabc",
]
WORDS = [
    *(b"x-hub-signature-256:sha256=", b"stripe-signature:t=", b",v1=", b"x-slack-signature:v0=", b"$", b"\n\n"),
    *(b"v1,$", b"x-slack-request-timestamp:", b"x-shopify-hmac-sha256:", b"webhook-id:", b"webhook-timestamp:"),
    *(b"v1a,", b" ", b"webhook-signature:v1,", b"1700000000", b"1700000300", b"1700000301", b"ce-id:1\n"),
    *(b"content-type:", b"t=", b"application/cloudevents+json", b"0", b"+1700000000", b"1_700_000_000", "١".encode()),
    *(b"=", b",", b".", b"\n"),
]  # fmt: skip
