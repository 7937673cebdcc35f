"""Sinks that answer by script. What would be sent, and what an answer means, is still asked of the real sink."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from anyio.abc import TaskGroup

from ..abilities import Judging, Previewing
from ..errors import Refused
from ..event import Event, Message
from ..interfaces import DELIVERED, Outcome, ReaderFeed
from ..outcome import unwritable
from .inputs import event_text
from .model import AnswerConfig
from .record import Key
from .stage import Script, Stage

Done = Callable[[Outcome], None]


class _Idle:
    """A sink that has nothing to start."""

    address: str

    async def start(self, tasks: TaskGroup) -> None: ...

    async def stop(self) -> None: ...


class ScriptedFarSide(_Idle):
    """Stands in for a sink that sends."""

    def __init__(self, stage: Stage, script: Script, real: Any, place: str) -> None:
        self.address: str = real.address
        self._stage = stage
        self._script = script
        self._real = real
        self._place = place
        if isinstance(real, Previewing):
            self.preview = real.preview

    def send(self, event: Event, timeout_s: float, done: Done) -> None:
        attempt = self._stage.current
        if isinstance(self._real, Previewing):
            try:
                message: Message | None = self._real.preview(event)
            except Refused as e:
                done(unwritable(e))
                return
            if attempt is not None:
                attempt.message = message
        answer = self._script.next(event) or AnswerConfig()
        if answer.timeout or answer.after_s > timeout_s:
            outcome = Outcome(False, retry=True, reason=f"no answer within {timeout_s:g} s")
            self._stage.clock.call_later(timeout_s, done, outcome)
        elif answer.after_s:
            self._stage.clock.call_later(answer.after_s, lambda: done(self._outcome(answer)))
        else:
            done(self._outcome(answer))

    def _outcome(self, answer: AnswerConfig) -> Outcome:
        if answer.error is not None:
            return Outcome(False, retry=not answer.final, reason=answer.error)
        if isinstance(self._real, Judging):
            headers, body = _response(answer)
            status = answer.status or (202 if answer.event is None and answer.body is None else 200)
            return self._real.judge(status, headers, body)
        if answer.status is not None and answer.status >= 300:
            # raised only later: here the delivery would take it for an event that can't be written
            self._stage.fault = f"{self._place} has no status: write ok, timeout, refused or {{error: …}}"
        return DELIVERED


def _response(answer: AnswerConfig) -> tuple[list[tuple[bytes, bytes]], bytes]:
    headers = [(name.lower().encode(), str(value).encode()) for name, value in answer.headers.items()]
    if answer.event is not None:
        headers.append((b"content-type", b"application/cloudevents+json"))
        return headers, event_text(answer.event, "reply")
    if answer.body is None:
        return headers, b""
    return headers, answer.body.encode() if isinstance(answer.body, str) else msgspec.json.encode(answer.body)


class Recorder(_Idle):
    """Around a trigger's or bridge's sink: writes down every attempt."""

    def __init__(self, stage: Stage, key: Key, inner: Any, real: Any) -> None:
        self.address: str = real.address
        self._stage = stage
        self._key = key
        self._inner = inner
        if (most := getattr(real, "in_flight", None)) is not None:
            self.in_flight = most
        self.replies = getattr(real, "replies", False)
        if isinstance(real, Previewing):
            self.preview = real.preview

    def send(self, event: Event, timeout_s: float, done: Done) -> None:
        stage = self._stage
        passage, attempt = stage.attempt(self._key, event)

        def settled(outcome: Outcome) -> None:
            attempt.outcome, attempt.ended_s = outcome, stage.now_s
            if outcome.delivered:
                passage.delivered_s = stage.now_s
            before, stage.answering = stage.answering, passage
            try:
                done(outcome)
            finally:
                stage.answering = before

        before, stage.current = stage.current, attempt
        try:
            self._inner.send(event, timeout_s, settled)
        finally:
            stage.current = before


class LetterBox(_Idle):
    """Around a dead letter: writes down what it takes."""

    def __init__(self, stage: Stage, bridge: str, inner: Any, real: Any) -> None:
        self.address: str = real.address
        self._stage = stage
        self._bridge = bridge
        self._inner = inner

    def send(self, event: Event, timeout_s: float, done: Done) -> None:
        def settled(outcome: Outcome) -> None:
            if outcome.delivered:
                name = str(event.attributes.get("tidegatetrigger", ""))
                key: Key = ("bridge", self._bridge) if self._bridge else ("trigger", name)
                self._stage.buried(key, event, self.address)
            done(outcome)

        before, self._stage.current = self._stage.current, None
        try:
            self._inner.send(event, timeout_s, settled)
        finally:
            self._stage.current = before


class ReaderStandIn:
    """Stands in for a sink that reads the channel by itself."""

    def __init__(self, real: Any) -> None:
        self.address: str = real.address

    async def start_reading(self, feed: ReaderFeed, tasks: TaskGroup) -> None: ...

    async def stop(self) -> None: ...

    def state(self) -> Mapping[str, Any]:
        return {"state": "running", "error": None, "lag": 0}
