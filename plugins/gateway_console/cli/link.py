"""Makes a link that logs in to the console, and opens it."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path

from gateway_admin.client.remote import remote
from gateway_admin.client.running import addresses, admin_url

from gateway_core.cli import common
from gateway_core.cli.common import CommandError
from gateway_core.cli.exit_codes import OK


def open_console(admin: str | None, data_dir: Path | None, *, browser: bool) -> int:
    """Prints a link, and opens it if there is a desktop; returns the exit code. Raises `CommandError`."""
    with remote(admin, data_dir) as gateway:
        path = gateway.ask("POST", "console", "link")["path"]
    if admin is not None:
        base = admin_url(admin, Path())
    else:
        found = addresses(common.settings(data_dir=data_dir).data_dir) or {}
        if not found.get("admin"):
            raise CommandError("the admin API has no address for browsers: start the gateway with --admin HOST:PORT")
        base = str(found["admin"])
    print(f"{base}{path}")
    if (
        browser
        and sys.stdout.isatty()
        and (sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    ):
        webbrowser.open(f"{base}{path}")
    return OK
