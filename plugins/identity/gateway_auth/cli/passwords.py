"""`tidegate auth password`."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path

from gateway_audit_log.log import record_command

from gateway_core.contract.cli.common import CommandError, settings

from ..passwords import LONGEST, hash_of, set_password


def new_password(name: str | None, file: Path | None) -> None:
    """Raises `CommandError` and `BadFile`."""
    hashed = hash_of(_asked())
    if name is None or file is None:
        print(hashed)
        return
    new = set_password(file, name, hashed)
    record_command(settings().data_dir, "password.set", "done", name=name, file=str(file))
    print(f"{file}: {'added' if new else 'changed the password of'} {name}")


def _asked() -> bytes:
    try:
        return _typed()
    except UnicodeError:
        raise CommandError("the password is not UTF-8 text: senders could not send it (RFC 7617 section 2.1)") from None


def _typed() -> bytes:
    """Raises `UnicodeError`."""
    if sys.stdin.isatty():
        text = getpass.getpass("Password: ")
        if getpass.getpass("Again: ") != text:
            raise CommandError("the two passwords differ")
    else:
        text = sys.stdin.readline().removesuffix("\n")
    password = text.encode()
    if not 1 <= len(password) <= LONGEST:
        raise CommandError(f"a password has 1 to {LONGEST} bytes")
    return password
