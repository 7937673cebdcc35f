"""Files of events as JSON text, for commands: lines, an array, or one event over many lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from gateway_json import json_text

from gateway_core.contract.cli.common import CommandError

from . import event_json


def from_file(file: Path) -> Iterator[bytes]:
    """The events of a file (`-`: standard input), each as JSON text. Raises `CommandError` naming the line."""
    if str(file) == "-":
        yield from read(sys.stdin.buffer, "standard input")
        return
    try:
        with file.open("rb") as f:
            yield from read(f, str(file))
    except OSError as e:
        raise CommandError(f"can't read {file}: {e.strerror}") from e


def read(source: BinaryIO, name: str) -> Iterator[bytes]:
    """Reads events: one per line, in an array, or a single event over many lines. Lines are read as they arrive."""
    first, number = b"", 0
    while not first:
        line = source.readline()
        number += 1
        if not line:
            return
        first = line.removeprefix(json_text.BOM).strip()
    if _is_object(first):
        yield first
        for line in source:
            number += 1
            if text := line.strip():
                if not _is_object(text):
                    raise CommandError(f"{name}:{number}: not a JSON object")
                yield text
        return
    whole = (line.removeprefix(json_text.BOM) + source.read()).strip()
    if _is_object(whole):
        yield whole
        return
    try:
        texts = json_text.elements(whole)
    except ValueError as e:
        why = "" if whole.startswith(b"{") else f": {e}"
        raise CommandError(f"{name}: expected one event per line, an array, or a single event{why}") from e
    for i, text in enumerate(texts):
        if not _is_object(text):
            raise CommandError(f"{name}: element {i} of the array is not a JSON object")
        yield text


def _is_object(text: bytes) -> bool:
    try:
        event_json.members(text)
    except ValueError:
        return False
    return True
