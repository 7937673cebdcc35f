"""What became of an attempt to deliver."""

from __future__ import annotations

from .errors import Refused
from .event import Event


class Outcome:
    """What became of one attempt to deliver.

    `delivered`      the far side has the event. All below is then empty, but for `reply` and `code`.
    `retry`          the same attempt may succeed later.
    `code`           the far side's status code, None where there was no answer.
    `data`           what the far side said (a response body), cut to 1024 bytes or more.
    `reason`         one line for people: "503 Service Unavailable", "connection refused".
    `retry_after_s`  how long the far side asked to be left alone, None where it did not.
    `reply`          an event to publish to the broker.
    """

    __slots__ = ("code", "data", "delivered", "reason", "reply", "retry", "retry_after_s")

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
    ) -> None:
        self.delivered = delivered
        self.retry = retry
        self.code = code
        self.data = data
        self.reason = reason
        self.retry_after_s = retry_after_s
        self.reply = reply

    def __repr__(self) -> str:
        word = "delivered" if self.delivered else "retry" if self.retry else "failed"
        return f"<Outcome {word} {self.code or ''} {self.reason}>"


DELIVERED = Outcome(True)


def unwritable(error: Refused | ValueError) -> Outcome:
    """The event can't be written for a sink: no later attempt can help. A dead letter says `tidegatestage: encode`."""
    detail = error.detail if isinstance(error, Refused) else str(error)
    return Outcome(False, reason=f"encode: {detail}")
