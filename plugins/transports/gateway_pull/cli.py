"""`tidegate listen`: its arguments and help."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated
from urllib.parse import urlsplit

import typer


class Mode(StrEnum):
    binary = "binary"
    structured = "structured"


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and text.isprintable()
    except ValueError:
        return False


def listen(
    url: Annotated[str, typer.Argument(help="The address of a `pull` sink, as `tidegate status` shows it.")],
    forward: Annotated[
        str | None, typer.Option(help="Send each event to this URL, such as http://localhost:3000/events.")
    ] = None,
    print_: Annotated[bool, typer.Option("--print", help="Print each event as a line of JSON.")] = False,
    token: Annotated[
        str | None, typer.Option(envvar="TIDEGATE_PULL_TOKEN", help="The bearer token of the sink, if it has one.")
    ] = None,
    mode: Annotated[Mode, typer.Option(help="Content mode of forwarded events.")] = Mode.binary,
    count: Annotated[int | None, typer.Option(min=1, help="Stop after this many events.")] = None,
    in_flight: Annotated[int, typer.Option(min=1, max=1000, help="Number of events forwarded at once.")] = 16,
    timeout_s: Annotated[float, typer.Option(min=0.1, max=3600, help="How long the server may take to respond.")] = 30,
) -> None:
    """Fetch events and pass them on to a server on this machine.

    An event is acknowledged after the server's 2xx; another response is handled as that of any subscriber. While the
    server can't be reached, its events wait. Ctrl-C finishes what is under way."""
    from .listen import Listening, Options

    if forward is None and not print_:
        raise typer.BadParameter("say what to do with the events: --forward URL, or --print")
    if forward is not None and not _is_url(forward):
        raise typer.BadParameter("write --forward as http://HOST:PORT/PATH or https://…")
    options = Options(url.rstrip("/"), forward, print_, token, mode.value, count, in_flight, timeout_s)
    raise typer.Exit(Listening(options).run())
