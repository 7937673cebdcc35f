"""`tidegate apply`: sends files as one request, and maps its faults back to the files."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gateway_api.client.remote import Declined, fault_of, remote

from gateway_core.contract.cli import common
from gateway_core.contract.cli.common import CommandError
from gateway_core.contract.cli.exit_codes import FAULT, OK
from gateway_core.contract.configs import config_files, installed
from gateway_core.contract.errors import ConfigError, Fault
from gateway_core.contract.faults import to_json

STDIN = "standard input"
_BETWEEN = b"---\n"


@dataclass(frozen=True, slots=True)
class Bundle:
    """Files in one body. `starts` has the body's line at which each file begins, counted from 1."""

    body: bytes
    starts: list[tuple[int, str]]

    def placed(self, fault: Fault) -> Fault:
        """A fault of the body, with the original file and line."""
        if fault.file:
            return fault
        start, name = max((s for s in self.starts if s[0] <= max(1, fault.line)), default=(1, ""))
        return dataclasses.replace(fault, file=name, line=fault.line - start + 1 if fault.line else 0)


def apply(files: Sequence[Path], admin: str | None, data_dir: Path | None, *, as_json: bool) -> int:
    """Creates or changes what the files define; returns the exit code."""
    bundle = bundled(files)
    try:
        with remote(admin, data_dir) as gateway:
            done = gateway.ask("POST", "apply", body=bundle.body)
    except Declined as e:
        faults = [bundle.placed(fault) for fault in e.faults]
        if as_json:
            common.print_json(to_json(faults or [Fault(str(e))]))
            return FAULT
        if not faults:
            raise
        print(f"tidegate: {e}", file=sys.stderr)
        raise ConfigError(faults) from e
    warnings = [bundle.placed(fault_of(w)) for w in done["warnings"]]
    if as_json:
        common.print_json({**done, "warnings": to_json([], warnings)["warnings"]})
        return OK
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    for trigger in done["triggers"]:
        print(f"trigger {trigger['name']} {trigger['result']}")
    return OK


def bundled(files: Sequence[Path]) -> Bundle:
    """All files (`-` is standard input) and the files in folders, as one body."""
    parts: list[bytes] = []
    starts: list[tuple[int, str]] = []
    line = 1
    for name, content in _contents(files):
        text = content.removeprefix(b"\xef\xbb\xbf")
        text = text if text.endswith(b"\n") else text + b"\n"
        if parts:
            parts.append(_BETWEEN)
            line += 1
        starts.append((line, name))
        parts.append(text)
        line += len(text.splitlines())
    return Bundle(b"".join(parts), starts)


def _contents(files: Sequence[Path]) -> list[tuple[str, bytes]]:
    found = []
    for file in files:
        if str(file) == "-":
            found.append((STDIN, sys.stdin.buffer.read()))
            continue
        inside = config_files(file, installed()) if file.is_dir() else []
        if file.is_dir() and not inside:
            raise CommandError(f"{file}: the directory has no *.yaml or *.yml file")
        found += [(str(f), f.read_bytes()) for f in inside or [file]]
    return found
