"""The outcome of an attempt to deliver."""

from __future__ import annotations

import errno
from enum import StrEnum

from .errors import Refused
from .event import Event
from .options import redacted
from .shortage import exhausted, is_shortage


class Stage(StrEnum):
    """Where on its path an event failed: `tidegatestage` in its dead letter."""

    DECODE = "decode"
    """What came in is not an event."""
    FILTER = "filter"
    """The filter raised, so it is unknown whether the event is wanted."""
    ORDER = "order"
    """The key mapper found no order key, or raised."""
    DELAY = "delay"
    """The event's attribute does not say when it is due."""
    ENCODE = "encode"
    """The sink can't write the event. No attempt can help."""
    DELIVERY = "delivery"
    """The remote side did not take it."""


class Outcome:
    """The outcome of one attempt to deliver.

    `delivered`      the remote side has the event. Then only `reply` and `code` may be set.
    `retry`          the same attempt may succeed later.
    `code`           the remote side's status code, None if there was no answer.
    `data`           what the remote side said (a response body), cut to 1024 bytes or more.
    `stage`          where it failed.
    `reason`         one line for people: "503 Service Unavailable", "connection refused".
    `retry_after_s`  how long the remote side asked us to wait, None if it did not.
    `reply`          an event to publish to the broker.
    `local`          nothing was sent: this machine is short of something (`gateway_core.contract.shortage`), or the
                     sink has no access token. That is no attempt: the event is queued again, and sent when it can be.
                     Without `retry` it is too late to send it: it is given up after the attempts that were made.
    `shared`         the message had several events, and was rejected: nothing is known about this one alone. The
                     attempt is counted, uses up no retry, and the next one follows at once. The sink then sends less
                     at a time.
    `reached`        the message was written to the remote side, which then gave no answer: it may be the event's fault.
                     Not for connections that were refused, not found, or not trusted (TLS).
    """

    __slots__ = (
        "code", "data", "delivered", "local", "reached", "reason", "reply", "retry", "retry_after_s", "shared", "stage",
    )  # fmt: skip

    def __init__(
        self,
        delivered: bool,
        *,
        retry: bool = False,
        code: int | None = None,
        data: bytes | None = None,
        reason: str = "",
        retry_after_s: float | None = None,
        reply: Event | None = None,
        local: bool = False,
        shared: bool = False,
        reached: bool = False,
        stage: Stage = Stage.DELIVERY,
    ) -> None:
        self.delivered = delivered
        self.retry = retry
        self.code = code
        self.data = data
        self.reason = redacted(reason) if reason else ""
        self.retry_after_s = retry_after_s
        self.reply = reply
        self.local = local
        self.shared = shared
        self.reached = reached
        self.stage = stage

    def __repr__(self) -> str:
        word = "delivered" if self.delivered else "local" if self.local else "retry" if self.retry else "failed"
        return f"<Outcome {word} {self.code or ''} {self.reason}>"


DELIVERED = Outcome(True)


def raised(error: BaseException) -> Outcome:
    """The outcome for an exception of a client library: it is retried. A shortage on this machine is no attempt."""
    if is_shortage(error):
        return short(error)
    return Outcome(False, retry=True, reason=f"{type(error).__name__}: {error}")


def short(error: BaseException | str) -> Outcome:
    """The outcome for a shortage on this machine: no attempt was made (see `Outcome.local`)."""
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        exhausted(error)
    text = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return Outcome(False, retry=True, local=True, reason=f"this machine is short of resources: {text}")


def unwritable(error: BaseException) -> Outcome:
    """The outcome for an event that a sink can't write. It is not retried."""
    detail = error.detail if isinstance(error, Refused) else str(error)
    return Outcome(False, stage=Stage.ENCODE, reason=f"encode: {detail}")


UNWANTED = Outcome(False, stage=Stage.FILTER, reason="the trigger's filter no longer matches it")
"""Of an event that waited for a trigger whose filter does not match it any more."""
