"""Sinks with scripted responses. The real sink still says what it would send and what a response means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from anyio.abc import TaskGroup

from gateway_core.contract.capabilities import ClassifiesResponses, Gathering, Previewing, Replying, lend
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import DELIVERED, Outcome, ReaderFeed
from gateway_core.contract.outcome import unwritable

from .inputs import event_text
from .model import AnswerConfig
from .record import Key
from .stage import Script, Stage

Done = Callable[[Outcome], None]


class _Idle:
    """A sink with nothing to start."""

    address: str

    async def start(self, tasks: TaskGroup) -> None: ...

    async def stop(self) -> None: ...


class ScriptedRemote(_Idle):
    """Replaces a sink that sends."""

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
            outcome = Outcome(False, retry=True, reason=f"no response within {timeout_s:g} s")
            self._stage.clock.call_later(timeout_s, done, outcome)
        elif answer.after_s:
            self._stage.clock.call_later(answer.after_s, lambda: done(self._outcome(answer)))
        else:
            done(self._outcome(answer))

    def _outcome(self, answer: AnswerConfig) -> Outcome:
        if answer.error is not None:
            return Outcome(False, retry=not answer.final, reason=answer.error)
        if isinstance(self._real, ClassifiesResponses):
            headers, body = _response(answer)
            status = answer.status or (202 if answer.event is None and answer.body is None else 200)
            return self._real.classify(status, headers, body)
        if answer.status is not None and answer.status >= 300:
            # raised later: here the delivery would take it for an event that can't be encoded
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


class RecordingSink(_Idle):
    """Wraps the sink of a trigger or bridge and records every attempt."""

    def __init__(self, stage: Stage, key: Key, inner: Any, real: Any) -> None:
        self.address: str = real.address
        self._stage = stage
        self._key = key
        self._inner = inner
        lend(self, real, (Gathering, Previewing))
        self.replies = isinstance(real, Replying) and real.replies

    def send(self, event: Event, timeout_s: float, done: Done) -> None:
        stage = self._stage
        delivery, attempt = stage.attempt(self._key, event)

        def settled(outcome: Outcome) -> None:
            attempt.outcome, attempt.ended_s = outcome, stage.now_s
            if outcome.delivered:
                delivery.delivered_s = stage.now_s
            before, stage.answering = stage.answering, delivery
            try:
                done(outcome)
            finally:
                stage.answering = before

        before, stage.current = stage.current, attempt
        try:
            self._inner.send(event, timeout_s, settled)
        finally:
            stage.current = before


class RecordingDeadLetter(_Idle):
    """Wraps a dead letter sink and records what it accepts."""

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
                self._stage.dead_lettered(key, event, self.address)
            done(outcome)

        before, self._stage.current = self._stage.current, None
        try:
            self._inner.send(event, timeout_s, settled)
        finally:
            self._stage.current = before


class FakeReader:
    """Replaces a sink that reads the channel itself."""

    def __init__(self, real: Any) -> None:
        self.address: str = real.address

    async def start_reading(self, feed: ReaderFeed, tasks: TaskGroup) -> None: ...

    async def stop(self) -> None: ...

    def state(self) -> Mapping[str, Any]:
        return {"state": "running", "error": None, "lag": 0}
