"""Prints the audit log, and follows it."""

from __future__ import annotations

import heapq
import json
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, BinaryIO

from gateway_audit_log.files import audit_file, current_files, generations

from gateway_core.contract.cli import common
from gateway_core.contract.cli.common import CommandError
from gateway_core.contract.cli.exit_codes import OK
from gateway_core.contract.one_line import one_line

Line = dict[str, Any]
_POLL_S = 0.25
_BASE = ("time", "who", "what", "where", "result")


def show(data_dir: Path | None, *, follow: bool, lines: int, denied: bool, as_json: bool) -> int:
    """Prints the last lines; returns the exit code. Raises `CommandError`."""
    folder = common.settings(data_dir=data_dir).data_dir

    def wanted(line: Line) -> bool:
        return not denied or line.get("result") == "denied"

    write = _json if as_json else _text
    following = Following(folder) if follow else None
    try:
        found = (line for line in read(folder) if wanted(line))
        last = deque(found, maxlen=lines or None)
        if not last and not follow:
            if not as_json:
                print(f"no audit log in {folder}" if not current_files(folder) else "nothing was recorded")
            return OK
        for line in last:
            print(write(line))
        if following is not None:
            _follow(following, wanted, write)
    except OSError as e:
        raise CommandError(f"can't read the audit log: {e.filename or folder}: {e.strerror or e}") from e
    return OK


def read(data_dir: Path) -> Iterator[Line]:
    """All lines of all workers, oldest first. Raises `OSError`."""
    workers = [_lines(generations(file)) for file in current_files(data_dir)]
    yield from heapq.merge(*workers, key=lambda line: str(line.get("time", "")))


def _lines(files: Iterable[Path]) -> Iterator[Line]:
    for file in files:
        with suppress(FileNotFoundError), file.open("rb") as lines:
            for text in lines:
                if (line := _decoded(text)) is not None:
                    yield line


def _decoded(text: bytes) -> Line | None:
    """None for a line that a crash left half-written."""
    try:
        line = json.loads(text)
    except ValueError:
        return None
    return line if isinstance(line, dict) else None


class Following:
    """Reads what is added to the files from now on, also through rotations."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._open: dict[Path, tuple[BinaryIO, bytes]] = {}
        for file in current_files(data_dir):
            stream = file.open("rb")
            stream.seek(0, os.SEEK_END)
            self._open[file] = (stream, b"")

    def more(self) -> list[Line]:
        """The lines that came since the last call. Raises `OSError`."""
        found: list[Line] = []
        for file in {*current_files(self._data_dir), *self._open, audit_file(self._data_dir, 0)}:
            if file in self._open:
                found += self._rest(file)
            if self._moved(file):
                if file in self._open:
                    found += self._rest(file)
                    self._open.pop(file)[0].close()
                with suppress(FileNotFoundError):
                    self._open[file] = (file.open("rb"), b"")
                    found += self._rest(file)
        return sorted(found, key=lambda line: str(line.get("time", "")))

    def close(self) -> None:
        """Closes the files."""
        for stream, _ in self._open.values():
            stream.close()

    def _rest(self, file: Path) -> Iterator[Line]:
        stream, begun = self._open[file]
        *whole, begun = (begun + stream.read()).split(b"\n")
        self._open[file] = (stream, begun)
        return (line for text in whole if (line := _decoded(text)) is not None)

    def _moved(self, file: Path) -> bool:
        if file not in self._open:
            return file.exists()
        try:
            there = file.stat()
        except FileNotFoundError:
            return False
        ours = os.fstat(self._open[file][0].fileno())
        return (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino)


def _follow(following: Following, wanted: Callable[[Line], bool], write: Callable[[Line], str]) -> None:
    with suppress(KeyboardInterrupt), closing(following):
        while True:
            for line in following.more():
                if wanted(line):
                    print(write(line))
            sys.stdout.flush()
            time.sleep(_POLL_S)


def _json(line: Line) -> str:
    return json.dumps(line)


def _text(line: Line) -> str:
    """A line for people. What others wrote into it can't move the cursor or look like another line."""
    base = [one_line(line.get(name) or "-", 100) for name in _BASE]
    more = [f"{one_line(k, 40)}={_value(v)}" for k, v in line.items() if k not in _BASE and v not in ("", None)]
    return "  ".join([*base, " ".join(more)]).rstrip()


def _value(value: Any) -> str:
    return one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 300)
