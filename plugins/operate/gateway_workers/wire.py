"""Lines between the supervisor and its workers: JSON objects on a socket of their own, so that output of a plugin or
library is never mistaken for a message."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Literal, TypeVar

import msgspec

log = logging.getLogger("tidegate.workers")

T = TypeVar("T")

MAX_LINE = 32 * 1024 * 1024
MAX_WAITING = 64 * 1024 * 1024
"""Bytes buffered for a process that does not read. Beyond that messages are dropped: they would be outdated."""

Kind = Literal[
    "job", "beat", "status", "started", "failed", "refused", "reload", "talk", "joined", "left", "ended", "fetch"
]


class Note(msgspec.Struct, omit_defaults=True):
    """One line. `worker` is its subject, receiver or sender; `body` its content.

    Worker to supervisor: `beat` (its loop turns), `status`, `started`, `failed` (it can't start, and why), `reload`
    (the others should reload), `talk` (a line for another worker). Supervisor to worker: `job` (the first one),
    `status`, `joined`, `left` and `ended` (news for the first worker about the others), `talk`, `reload`,
    `fetch` (run the sources that run in one worker only).
    """

    kind: Kind
    worker: int = 0
    body: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET

    def value(self) -> Any:
        """The content of the body; None if there is none."""
        return None if self.body is msgspec.UNSET else _value(self.body)

    def read(self, decoder: msgspec.json.Decoder[T]) -> T:
        """The content of the body, as this decoder's type. Raises `msgspec.ValidationError`."""
        return decoder.decode(msgspec.Raw() if self.body is msgspec.UNSET else self.body)


_encode = msgspec.json.Encoder(enc_hook=str).encode
_note = msgspec.json.Decoder(Note).decode
_value = msgspec.json.Decoder().decode


class Wire:
    """One end. Begin with `open`."""

    def __init__(self, sock: socket.socket, name: str) -> None:
        self._sock = sock
        self._name = name
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter | None = None

    async def open(self) -> None:
        """Takes over the socket."""
        self._reader, self._writer = await asyncio.open_unix_connection(sock=self._sock, limit=MAX_LINE)

    def say(self, kind: Kind, value: Any = msgspec.UNSET, worker: int = 0) -> None:
        """Sends a note, unless the other end no longer reads."""
        raw = value if value is msgspec.UNSET else msgspec.Raw(_encode(value))
        self.pass_on(Note(kind, worker, raw))

    def pass_on(self, note: Note) -> None:
        """`say` for an existing note."""
        writer = self._writer
        if writer is None or writer.is_closing() or writer.transport.get_write_buffer_size() > MAX_WAITING:
            return
        writer.write(_encode(note) + b"\n")

    async def notes(self) -> AsyncIterator[Note]:
        """The notes of the other end, until it ends. Anything else is dropped and logged."""
        while True:
            try:
                line = await self._reader.readline()
            except ValueError:
                log.warning("%s: dropped a line longer than %d bytes", self._name, MAX_LINE)
                continue
            except OSError:
                return
            if not line:
                return
            try:
                yield _note(line)
            except (msgspec.MsgspecError, ValueError, RecursionError) as e:
                log.warning("%s: dropped an invalid line: %.80r (%s)", self._name, line, e)

    def close(self) -> None:
        """Ends both directions."""
        if self._writer is not None:
            with suppress(OSError, RuntimeError):
                self._writer.close()
