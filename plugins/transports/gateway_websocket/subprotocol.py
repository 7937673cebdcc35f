"""The subprotocols, and the messages of the one that acknowledges.

Source: CloudEvents WebSockets binding 1.0.2, section 1.5, for `cloudevents.json`. The other one,
`cloudevents.json+ack.tidegate.dev`, is our own; docs/howto/websocket.md defines it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gateway_core.contract.authenticator import TooManyRequests
from gateway_core.contract.component import Binding
from gateway_core.contract.errors import NotDelivered, Overloaded, Refused, StorageError
from gateway_core.contract.interfaces import Outcome
from gateway_core.contract.one_line import one_line
from gateway_core.contract.shortage import may_pass

from .options import Acknowledge

PLAIN = "cloudevents.json"
ACK = "cloudevents.json+ack.tidegate.dev"

BINDING = Binding("websocket", b"", False, "WebSockets binding 1.0.2", {"mode": "1.3", "structured": "3"}, trace=None)
CONTENT_TYPE = (b"content-type", b"application/cloudevents+json")


def offered(acknowledge: Acknowledge) -> tuple[str, ...]:
    """The subprotocols of an end, the preferred one first."""
    return {"required": (ACK,), "optional": (ACK, PLAIN), "off": (PLAIN,)}[acknowledge]


# -- what a receiver answers ------------------------------------------------------------------------------------------


def acks(numbers: list[int]) -> list[bytes]:
    """The messages that acknowledge these events, one for each run of numbers. Sorts the list."""
    numbers.sort()
    found = []
    first = last = numbers[0]
    for number in numbers[1:]:
        if number != last + 1:
            found.append(_run(first, last))
            first = number
        last = number
    found.append(_run(first, last))
    return found


def _run(first: int, last: int) -> bytes:
    return b'{"ack":%d}' % first if first == last else b'{"ack":[%d,%d]}' % (first, last)


def nack(number: int, error: BaseException) -> bytes:
    """The message that refuses an event, with a problem description (RFC 9457)."""
    retry, problem = True, {"type": "about:blank", "title": "Service Unavailable", "status": 503, "detail": str(error)}
    if may_pass(error):
        problem |= {"detail": "The gateway is short of resources."}
    elif isinstance(error, Refused):
        retry = isinstance(error, TooManyRequests)
        problem |= {"title": error.title, "status": error.status, "detail": error.detail}
        problem |= {name: text for name in ("attribute", "rule") if (text := getattr(error, name))}
    elif isinstance(error, NotDelivered):
        retry = False
        problem |= {"title": "Not delivered", "status": error.status}
        problem |= {"sinkStatus": error.code} if error.code is not None else {}
    elif not isinstance(error, Overloaded | StorageError):
        problem |= {"title": "Internal Server Error", "status": 500, "detail": "The gateway failed."}
    message: dict[str, Any] = {"nack": number, "retry": retry, "problem": problem}
    if retry and isinstance(error, Overloaded | StorageError | TooManyRequests):
        message["retry_after_s"] = error.retry_after_s
    return msgspec.json.encode(message)


# -- what a sender reads ----------------------------------------------------------------------------------------------


class Problem(msgspec.Struct):
    """RFC 9457, as much of it as an outcome needs."""

    status: int | None = None
    title: str = ""
    detail: str = ""


class Answer(msgspec.Struct):
    """One message of a receiver. Other members are ignored."""

    ack: int | tuple[int, int] | None = None
    nack: int | None = None
    retry: bool = False
    retry_after_s: float | None = None
    problem: Problem | None = None

    def outcome(self) -> Outcome:
        """The outcome of the event that `nack` names."""
        problem = self.problem or Problem()
        text = ": ".join(part for part in (problem.title, problem.detail) if part) or "refused"
        status = problem.status if problem.status is not None and 100 <= problem.status <= 999 else None
        wait = self.retry_after_s if self.retry_after_s is not None and self.retry_after_s >= 0 else None
        return Outcome(
            False,
            retry=self.retry,
            code=status,
            reason=one_line(f"{status} {text}" if status else text),
            retry_after_s=wait if self.retry else None,
        )


read_answer = msgspec.json.Decoder(Answer).decode
"""Reads a receiver's message. Raises `msgspec.MsgspecError`."""
