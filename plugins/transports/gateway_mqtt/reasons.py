"""Reason codes of MQTT 5 (section 2.4) in words, and what they mean for an event or a connection."""

from __future__ import annotations

from typing import Any

from gateway_core.contract.interfaces import DELIVERED, Outcome
from gateway_core.contract.one_line import one_line

FAILURE = 0x80
"""From here on a reason code says that something failed."""
TAKEN_OVER = 0x8E

WORDS = {
    0x80: "unspecified error",
    0x81: "malformed packet",
    0x82: "protocol error",
    0x83: "implementation specific error",
    0x84: "the server does not speak this version of MQTT; set `version`",
    0x85: "the server does not take this client id; set `client_id`",
    0x86: "bad user name or password",
    0x87: "not authorized",
    0x88: "server unavailable",
    0x89: "server busy",
    0x8A: "banned",
    0x8B: "the server is shutting down",
    0x8C: "bad authentication method",
    0x8D: "nothing was heard from us in time (keep alive)",
    TAKEN_OVER: "another client took over the session: each gateway needs a `client_id` of its own",
    0x8F: "topic filter invalid",
    0x90: "topic name invalid",
    0x91: "packet identifier in use",
    0x93: "more messages in flight than the receive maximum",
    0x94: "topic alias invalid",
    0x95: "packet too large",
    0x96: "message rate too high",
    0x97: "quota exceeded",
    0x98: "closed by an administrator",
    0x99: "payload format invalid",
    0x9A: "the server retains no messages; set `retain: false`",
    0x9B: "the server does not support this QoS; set a lower `qos`",
    0x9C: "use another server",
    0x9D: "the server has moved",
    0x9E: "the server has no shared subscriptions; remove `group`",
    0x9F: "connection rate exceeded",
    0xA0: "the longest time of a connection has passed",
    0xA1: "the server has no subscription identifiers",
    0xA2: "the server has no wildcard subscriptions",
}

_FOR_GOOD = frozenset({0x87, 0x90, 0x95, 0x99, 0x9A, 0x9B})
"""An event that gets one of these gets it again."""

_LASTING = frozenset(
    {0x81, 0x82, 0x84, 0x85, 0x86, 0x87, 0x8A, 0x8C, 0x8F, 0x90, 0x95, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9E, 0xA2}
)
"""A connection or subscription that gets one of these will not work until the config or the server changes."""


def words(code: int, said: str = "") -> str:
    """A reason code for people, with the server's own Reason String if it gave one."""
    text = WORDS.get(code, "an unknown reason")
    return f"{text} (0x{code:02X}{f': {one_line(said)}' if said else ''})"


def said_in(properties: Any) -> str:
    """The Reason String of a packet whose properties paho has read; "" if it has none."""
    return str(getattr(properties, "ReasonString", ""))


def is_lasting(code: int) -> bool:
    """Whether to try again as it is can't help: wrong credentials, no permission, an unsupported feature."""
    return code in _LASTING


def outcome(code: int, said: str = "") -> Outcome:
    """The outcome of an attempt that got this reason code in its PUBACK, PUBREC or PUBCOMP. No matching subscribers
    (0x10) is a success: the server has taken the event."""
    if code < FAILURE:
        return DELIVERED
    return Outcome(False, retry=code not in _FOR_GOOD, code=code, reason=words(code, said))
