"""Makes a link that logs in to the console, and opens it."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path
from urllib.parse import urlsplit

from gateway_api.client.remote import Declined, remote
from gateway_api.client.running import addresses, admin_url

from gateway_core.contract.cli import common
from gateway_core.contract.cli.common import CommandError
from gateway_core.contract.cli.exit_codes import OK

_ANY = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}
"""Addresses that only a listener has, and what a browser on the same machine writes in their place."""


def open_console(admin: str | None, data_dir: Path | None, *, browser: bool) -> int:
    """Prints a link, and opens it if there is a desktop; returns the exit code. Raises `CommandError`."""
    link = make_link(admin, data_dir)
    print(link, flush=True)
    if not sys.stdout.isatty():
        return OK
    opened = browser and _desktop() and webbrowser.open(link)
    if not opened and "SSH_CONNECTION" in os.environ:
        port = urlsplit(link).port
        told = f"On your own machine, run `ssh -L {port}:127.0.0.1:{port} HOST` and open the link there."
    else:
        told = "Opened in your browser." if opened else "Open it in a browser."
    print(f"{told} It logs you in once, within a minute.", file=sys.stderr)
    return OK


def make_link(admin: str | None, data_dir: Path | None) -> str:
    """A link that logs in once. Raises `CommandError`."""
    base = _base(admin, data_dir)
    with remote(admin, data_dir) as gateway:
        try:
            path = gateway.ask("POST", "console", "link")["path"]
        except Declined as e:
            if e.status != 404:
                raise
            raise CommandError(
                f"the gateway at {base} has no console: it is switched off (TIDEGATE_CONSOLE=off), or too old"
            ) from e
    return f"{base}{path}"


def _base(admin: str | None, data_dir: Path | None) -> str:
    """What the link begins with. Raises `CommandError`."""
    folder = common.settings(data_dir=data_dir).data_dir
    if admin is None:
        found = addresses(folder) or {}
        if found.get("socket") and not found.get("admin"):
            raise CommandError(
                f"the admin API of the gateway of {folder} has no address for browsers, only a socket: start it with "
                "--admin HOST:PORT"
            )
    base = admin_url(admin, folder)
    host = urlsplit(base).netloc.rpartition(":")[0]
    return base.replace(host, _ANY[host], 1) if host in _ANY else base


def _desktop() -> bool:
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
