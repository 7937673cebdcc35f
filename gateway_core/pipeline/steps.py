"""Steps that `compose` puts into the path of an event where they are wanted: admissions, transforms, observers.

The steps that record spans are in `tracing`, those that measure in `metering`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..contract.admission import AlreadyStored, Verdict
from ..contract.errors import Refused
from ..contract.event import Event
from ..contract.interfaces import Accepted, Admission, Outcome, Send

Accept = Callable[[Sequence[Event], Accepted], None]
"""`Intake.accept`."""

Refuse = Callable[[Refused], None]
"""`Intake.refuse`."""

Transform = Callable[[Event], Event]
"""Returns the event that goes on in place of this one, which stays as it is. It raises `Refused` if the event can't go
on, and must be quick."""


def admitted(admissions: Sequence[Admission], refuse: Refuse, accept: Accept) -> Accept:
    """`accept` for events that all admissions let in."""

    def checked(events: Sequence[Event], done: Accepted) -> None:
        try:
            verdict = _verdict(admissions, events)
        except Exception as e:  # closed, never open
            done(e)
            return
        if verdict is None:
            accept(events, done)
        elif isinstance(verdict, AlreadyStored):
            for event, position in zip(events, verdict.positions, strict=False):
                event.position = position
            done(None)
        else:
            refuse(verdict)
            done(verdict)

    return checked


def _verdict(admissions: Sequence[Admission], events: Sequence[Event]) -> Verdict:
    """A refusal, if one of them refuses: what is here already must not be an answer for who may not send it."""
    stored = None
    for admission in admissions:
        verdict = admission(events)
        if isinstance(verdict, AlreadyStored):
            stored = verdict
        elif verdict is not None:
            return verdict
    return stored


def transformed(transforms: Sequence[Transform], refuse: Refuse, accept: Accept) -> Accept:
    """`accept` for events as the transforms leave them. If one of them can't go on, none does."""

    def changed(events: Sequence[Event], done: Accepted) -> None:
        try:
            events = [_after(transforms, event) for event in events]
        except Refused as e:
            refuse(e)
            done(e)
        except Exception as e:
            done(e)
        else:
            accept(events, done)

    return changed


def transformed_send(transforms: Sequence[Transform], send: Send) -> Send:
    """`send` for an event as the transforms leave it. What they raise ends the attempt, as if the sink had raised it;
    retries and the dead letter have the event as it was stored."""

    def changed(event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
        send(_after(transforms, event), timeout_s, done)

    return changed


def _after(transforms: Sequence[Transform], event: Event) -> Event:
    """The event after all transforms. What the gateway knows of an event beside its content stays with it."""
    made = event
    for transform in transforms:
        made = transform(made)
    if made is not event:
        made.received_ns, made.position = event.received_ns, event.position
        made.trace, made.identity, made.key_headers = event.trace, event.identity, event.key_headers
    return made


def observed(tell: Callable[[Sequence[Event]], None], accept: Accept) -> Accept:
    """`accept`, and then `tell` of the events, once they are stored."""

    def telling(events: Sequence[Event], done: Accepted) -> None:
        def stored(error: BaseException | None) -> None:
            if error is None:
                tell(events)
            done(error)

        accept(events, stored)

    return telling
