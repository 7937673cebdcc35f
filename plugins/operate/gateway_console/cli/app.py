"""`tidegate console`: names, arguments and help."""

from __future__ import annotations

from typing import Annotated

import typer
from gateway_api.client.options import AdminAddress

from gateway_core.contract.cli.options import DataDir


def console(
    admin: AdminAddress = None,
    data_dir: DataDir = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open a browser, or only print the link.")
    ] = True,
) -> None:
    """Open the console of a running gateway in a browser.

    The link logs you in once, within a minute.
    """
    from .link import open_console

    raise typer.Exit(open_console(admin, data_dir, browser=browser))
