"""Lines between the supervisor and its workers: JSON objects on a socket of their own, so that nothing that a plugin or
a library prints is ever taken for one."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Literal

import msgspec

log = logging.getLogger("tidegate.workers")

MAX_LINE = 32 * 1024 * 1024
MAX_WAITING = 64 * 1024 * 1024
"""Bytes that wait for a process that does not read; what comes then is dropped: it is news, and gets old."""

Kind = Literal["job", "beat", "status", "started", "failed", "reload", "talk", "joined", "left", "ended", "fetch"]


class Note(msgspec.Struct, omit_defaults=True):
    """One line. `worker` is whom a line is about, or for, or from; `body` what it says.

    Worker to supervisor: `beat` (its loop turns), `status`, `started`, `failed` (it can't start, and why), `reload`
    (the others shall read the config again), `talk` (a line for another worker). Supervisor to worker: `job` (the first
    one), `status`, `joined`, `left` and `ended` (what the first worker is told of the others), `talk`, `reload`,
    `fetch` (it runs the sources that run in one worker alone).
    """

    kind: Kind
    worker: int = 0
    body: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET

    def value(self) -> Any:
        """What the body says; None where there is none."""
        return None if self.body is msgspec.UNSET else _value(self.body)


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
        """The socket is this object's from now on."""
        self._reader, self._writer = await asyncio.open_unix_connection(sock=self._sock, limit=MAX_LINE)

    def say(self, kind: Kind, value: Any = msgspec.UNSET, worker: int = 0) -> None:
        """Sends a note, unless nobody reads any more."""
        raw = value if value is msgspec.UNSET else msgspec.Raw(_encode(value))
        self.pass_on(Note(kind, worker, raw))

    def pass_on(self, note: Note) -> None:
        """`say`, for a note that is there already."""
        writer = self._writer
        if writer is None or writer.is_closing() or writer.transport.get_write_buffer_size() > MAX_WAITING:
            return
        writer.write(_encode(note) + b"\n")

    async def notes(self) -> AsyncIterator[Note]:
        """What the other end says, until it ends. What is no note is dropped, and logged at the log's bounded rate."""
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
                log.warning("%s: dropped a line that says nothing: %.80r (%s)", self._name, line, e)

    def close(self) -> None:
        """Ends both directions."""
        if self._writer is not None:
            with suppress(OSError, RuntimeError):
                self._writer.close()
