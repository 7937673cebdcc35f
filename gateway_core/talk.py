"""What workers say to each other: the first asks, the others answer, in lines of JSON that their supervisor passes on.
A line is a question (`{"ask": n, …}`), its answer (`{"reply": n, …}`), or what a tap saw (`{"tap": n, "lines": […]}`).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import Any, Protocol

import anyio
import msgspec
from anyio.abc import TaskGroup

from .tap.choice import BadFilter, Choice, compile_all
from .tap.tap import Tap
from .tap.taps import Taps

log = logging.getLogger("tidegate.workers")

ANSWER_WITHIN_S = 2.0
MOST_LINES = 200
EVERY_S = 0.05
"""A tap is read this often at the most, so many lines at once: 4,000 a second."""

Push = Callable[[Sequence[bytes], int], None]
Answerer = Callable[[Any], Any]


class Colleagues(Protocol):
    """The other workers, as the first one sees them."""

    async def ask(self, question: Any) -> list[Any]:
        """The answers (JSON values) of those that give one soon."""

    async def tap(self, choice: Choice, push: Push) -> int:
        """Opens a tap in each, those that come later included. Returns its number."""

    async def untap(self, number: int) -> None:
        """Closes it."""


class Alone:
    """There are no others."""

    async def ask(self, question: Any) -> list[Any]:
        return []

    async def tap(self, choice: Choice, push: Push) -> int:
        return 0

    async def untap(self, number: int) -> None:
        return


class Line(msgspec.Struct, omit_defaults=True):
    """Any of the lines above."""

    ask: int | None = None
    reply: int | None = None
    tap: int | None = None
    question: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    answer: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    choice: Choice | None = None
    close: bool = False
    lines: tuple[msgspec.Raw, ...] = ()
    dropped: int = 0


_encode = msgspec.json.Encoder(enc_hook=str).encode
_line = msgspec.json.Decoder(Line).decode
_value = msgspec.json.Decoder().decode

Send = Callable[[bytes], Awaitable[None]]


def _parsed(raw: msgspec.Raw | msgspec.UnsetType) -> Any:
    return None if raw is msgspec.UNSET else _value(raw)


class Talk:
    """The first worker's side (`Colleagues`)."""

    def __init__(self) -> None:
        self._sends: dict[int, Send] = {}
        self._numbers = count(1)
        self._answers: dict[int, list[Any]] = {}
        self._wakes: set[anyio.Event] = set()
        self._taps: dict[int, tuple[Choice, Push]] = {}

    async def joined(self, worker: int, send: Send) -> None:
        """A worker has started."""
        self._sends[worker] = send
        for number, (choice, _) in self._taps.items():
            await self._say(Line(tap=number, choice=choice), worker)

    def left(self, worker: int) -> None:
        """A worker has ended."""
        self._sends.pop(worker, None)
        self._wake()

    def heard(self, text: bytes) -> bool:
        """Takes a line that a worker wrote; False where it is none of ours. Raises `ValueError` for what is no JSON."""
        if not text.startswith((b'{"reply"', b'{"tap"')):
            return False
        line = _line(text)
        if line.reply is not None and line.reply in self._answers:
            self._answers[line.reply].append(_parsed(line.answer))
            self._wake()
        elif line.tap is not None and line.tap in self._taps:
            self._taps[line.tap][1]([bytes(raw) for raw in line.lines], line.dropped)
        return True

    async def ask(self, question: Any) -> list[Any]:
        number = next(self._numbers)
        answers: list[Any] = []
        self._answers[number] = answers
        try:
            with anyio.move_on_after(ANSWER_WITHIN_S):
                await self._say_all(Line(ask=number, question=msgspec.Raw(_encode(question))))
                while len(answers) < len(self._sends):
                    wake = anyio.Event()
                    self._wakes.add(wake)
                    await wake.wait()
        finally:
            del self._answers[number]
        return answers

    def _wake(self) -> None:
        while self._wakes:
            self._wakes.pop().set()

    async def tap(self, choice: Choice, push: Push) -> int:
        number = next(self._numbers)
        self._taps[number] = (choice, push)
        await self._say_all(Line(tap=number, choice=choice))
        return number

    async def untap(self, number: int) -> None:
        if self._taps.pop(number, None) is not None:
            await self._say_all(Line(tap=number, close=True))

    async def _say_all(self, line: Line) -> None:
        for worker in list(self._sends):
            await self._say(line, worker)

    async def _say(self, line: Line, worker: int) -> None:
        send = self._sends.get(worker)
        try:
            if send is not None:
                await send(_encode(line) + b"\n")
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            self.left(worker)


class Listener:
    """Another worker's side: takes the first one's lines, and answers by `say`."""

    def __init__(self, taps: Taps, registry: Any, answer: Answerer, say: Callable[[bytes], None]) -> None:
        self._taps = taps
        self._registry = registry
        self._answer = answer
        self._say = say
        self._open: dict[int, Tap] = {}
        self._rest = b""

    def hear(self, chunk: bytes, tasks: TaskGroup) -> None:
        """Takes what was read from the pipe."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for text in lines:
            try:
                self._take(_line(text), tasks)
            except Exception:  # a fault here must not end a worker
                log.exception("a question of the first worker has no answer")

    def _take(self, line: Line, tasks: TaskGroup) -> None:
        if line.ask is not None:
            self._say(_encode(Line(reply=line.ask, answer=msgspec.Raw(_encode(self._answer(_parsed(line.question)))))))
        elif line.tap is not None and line.close:
            if (tap := self._open.pop(line.tap, None)) is not None:
                self._taps.close(tap)
        elif line.tap is not None and line.choice is not None:
            try:
                filter = compile_all(line.choice.filters, self._registry)
            except BadFilter:
                return  # the first worker says so
            self._open[line.tap] = tap = self._taps.open(line.choice, filter)
            tasks.start_soon(self._relay, line.tap, tap)

    async def _relay(self, number: int, tap: Tap) -> None:
        while not tap.closed:
            await tap.wait()
            lines, dropped = tap.take(MOST_LINES)
            if lines or dropped:
                self._say(_encode(Line(tap=number, lines=tuple(map(msgspec.Raw, lines)), dropped=dropped)))
            await anyio.sleep(EVERY_S)
