"""RPC between workers: the first one asks, the others answer. The supervisor forwards their lines.

A line is JSON: a question to a service (`{"ask": n, …}`), its answer (`{"reply": n, …}`), or lines of a stream
(`{"stream": n, "lines": […]}`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import anyio
import msgspec
from anyio.abc import TaskGroup

from gateway_core.contract.services import Push, RunningService, Stream

log = logging.getLogger("tidegate.workers")

ANSWER_WITHIN_S = 2.0
MOST_LINES = 200
EVERY_S = 0.05
"""A stream is read at most this often, at most `MOST_LINES` lines at once: 4,000 lines a second."""


class Line(msgspec.Struct, omit_defaults=True):
    """Any of the lines above."""

    ask: int | None = None
    reply: int | None = None
    stream: int | None = None
    service: str = ""
    question: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    answer: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    request: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    close: bool = False
    lines: tuple[msgspec.Raw, ...] = ()
    dropped: int = 0


_encode = msgspec.json.Encoder(enc_hook=str).encode
_line = msgspec.json.Decoder(Line).decode
_value = msgspec.json.Decoder().decode

Say = Callable[[bytes], None]
"""Sends a line."""


def _parsed(raw: msgspec.Raw | msgspec.UnsetType) -> Any:
    return None if raw is msgspec.UNSET else _value(raw)


class PeerClient:
    """The first worker's side (`Peers`)."""

    def __init__(self) -> None:
        self._others: dict[int, Say] = {}
        self._numbers = count(1)
        self._answers: dict[int, list[Any]] = {}
        self._wakes: set[anyio.Event] = set()
        self._streams: dict[int, tuple[Line, Push]] = {}

    def joined(self, worker: int, say: Say) -> None:
        """A worker has started."""
        self._others[worker] = say
        for line, _ in self._streams.values():
            say(_encode(line))

    def left(self, worker: int) -> None:
        """A worker has ended."""
        self._others.pop(worker, None)
        self._wake()

    def hear(self, text: bytes) -> None:
        """Takes a line of a worker. Raises `ValueError` if it is none."""
        line = _line(text)
        if line.reply is not None and line.reply in self._answers:
            self._answers[line.reply].append(_parsed(line.answer))
            self._wake()
        elif line.stream is not None and line.stream in self._streams:
            self._streams[line.stream][1]([bytes(raw) for raw in line.lines], line.dropped)

    async def ask(self, service: str, question: Any) -> list[Any]:
        number = next(self._numbers)
        answers: list[Any] = []
        self._answers[number] = answers
        try:
            with anyio.move_on_after(ANSWER_WITHIN_S):
                self._say_all(Line(ask=number, service=service, question=msgspec.Raw(_encode(question))))
                while len(answers) < len(self._others):
                    wake = anyio.Event()
                    self._wakes.add(wake)
                    await wake.wait()
        finally:
            del self._answers[number]
        return answers

    def _wake(self) -> None:
        while self._wakes:
            self._wakes.pop().set()

    async def open(self, service: str, request: Any, push: Push) -> int:
        number = next(self._numbers)
        line = Line(stream=number, service=service, request=msgspec.Raw(_encode(request)))
        self._streams[number] = (line, push)
        self._say_all(line)
        return number

    async def close(self, number: int) -> None:
        if self._streams.pop(number, None) is not None:
            self._say_all(Line(stream=number, close=True))

    def _say_all(self, line: Line) -> None:
        text = _encode(line)
        for say in self._others.values():
            say(text)


class PeerServer:
    """Another worker's side: handles the first worker's lines, and answers with `say`."""

    def __init__(self, services: Mapping[str, RunningService], say: Say) -> None:
        self._services = services
        self._say = say
        self._open: dict[int, tuple[RunningService, Stream]] = {}

    def hear(self, text: bytes, tasks: TaskGroup) -> None:
        """Takes a line of the first worker."""
        try:
            self._take(_line(text), tasks)
        except Exception:  # a fault here must not end a worker
            log.exception("a question of the first worker could not be answered")

    def _take(self, line: Line, tasks: TaskGroup) -> None:
        service = self._services.get(line.service)
        if line.ask is not None and service is not None:
            answer = service.answer(_parsed(line.question))
            self._say(_encode(Line(reply=line.ask, answer=msgspec.Raw(_encode(answer)))))
        elif line.stream is not None and line.close:
            if (opened := self._open.pop(line.stream, None)) is not None:
                opened[0].close(opened[1])
        elif line.stream is not None and service is not None:
            stream = service.open(_parsed(line.request))
            if stream is not None:
                self._open[line.stream] = (service, stream)
                tasks.start_soon(self._relay, line.stream, stream)

    async def _relay(self, number: int, stream: Stream) -> None:
        while not stream.closed:
            await stream.wait()
            lines, dropped = stream.take(MOST_LINES)
            if lines or dropped:
                self._say(_encode(Line(stream=number, lines=tuple(map(msgspec.Raw, lines)), dropped=dropped)))
            await anyio.sleep(EVERY_S)
