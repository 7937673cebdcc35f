"""Tokens that `tidegate login` got, each for the admin API of one gateway."""

from __future__ import annotations

import base64
import json
import os
import time
from pathlib import Path
from typing import Any

from gateway_core.contract.files import private_folder
from gateway_core.contract.private_files import replace_file

_LEEWAY_S = 5.0


def logins_file() -> Path:
    """Where they are kept (0600), in the user's configuration folder (XDG Base Directory Specification)."""
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser() / "tidegate" / "logins.json"


def find(url: str) -> str:
    """The token for this admin API; "" without one, or if it has expired."""
    entry = _read().get(url)
    if not isinstance(entry, dict) or not isinstance(entry.get("token"), str):
        return ""
    end = entry.get("expires")
    if isinstance(end, int | float) and end <= time.time() + _LEEWAY_S:
        return ""
    return str(entry["token"])


def save(url: str, token: str, expires: float | None) -> None:
    """Keeps a token for this admin API. `expires` is Unix time. Raises `OSError`."""
    _write({**_read(), url: {"token": token, "expires": expires}})


def forget(url: str) -> bool:
    """Removes the token for this admin API; returns whether there was one. Raises `OSError`."""
    entries = _read()
    known = entries.pop(url, None) is not None
    if known:
        _write(entries)
    return known


def expiry_of(token: str) -> float | None:
    """When a token says that it expires (`exp`, RFC 7519 section 4.1.4), Unix time. Nothing is verified."""
    try:
        body = token.split(".")[1]
        end = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))).get("exp")
    except (IndexError, ValueError, AttributeError):
        return None
    return float(end) if isinstance(end, int | float) else None


def _read() -> dict[str, Any]:
    try:
        entries = json.loads(logins_file().read_bytes())
    except (OSError, ValueError):
        return {}
    return entries if isinstance(entries, dict) else {}


def _write(entries: dict[str, Any]) -> None:
    private_folder(logins_file().parent)
    replace_file(logins_file(), json.dumps(entries).encode())
