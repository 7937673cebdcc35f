"""The command `tidegate conformance`."""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Annotated
from urllib.parse import urlsplit

import typer

from gateway_core.cli.options import Json

from .run import CHECKS, Result, chosen, run
from .sink import Sink

app = typer.Typer(add_completion=False)


@app.command()
def conformance(
    url: Annotated[str, typer.Option("--url", help="The broker's ingress address.")],
    sink_port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65535, help="Also check delivery. A trigger must send all events to this port of 127.0.0.1."
        ),
    ] = None,
    only: Annotated[str, typer.Option(help="Check only these requirements, such as DP-05,BR-15.")] = "",
    header: Annotated[
        list[str] | None, typer.Option(help="A header for each request, NAME=VALUE. Can be repeated.")
    ] = None,
    timeout_s: Annotated[
        float, typer.Option(min=0.1, max=600, help="How long to wait for a delivery or a reply.")
    ] = 60.0,
    settle_s: Annotated[
        float, typer.Option(min=0.1, max=600, help="How long to watch for what must not happen, such as a retry.")
    ] = 5.0,
    insecure: Annotated[bool, typer.Option("--insecure", help="Accept any certificate.")] = False,
    as_json: Json = False,
) -> None:
    """Check any broker: what its ingress accepts and refuses and, with --sink-port, how it delivers.

    Sends about a hundred small events and as many invalid ones, or a few hundred with --sink-port. Exit codes: 0 the
    broker conforms, 1 it fails a MUST.
    """
    from . import report

    if urlsplit(url).scheme not in ("http", "https"):
        raise typer.BadParameter("write http://… or https://…", param_hint="--url")
    try:
        checks = chosen(only.split(","))
    except KeyError as e:
        known = ", ".join(sorted({c.id for c in CHECKS}))
        raise typer.BadParameter(f"{e.args[0]} has no check; available: {known}", param_hint="--only") from None
    headers = dict(_header(text) for text in header or [])
    plain = not as_json and not sys.stdout.isatty()
    with contextlib.ExitStack() as stack:
        bar = stack.enter_context(report.progress())
        task = bar.add_task("checks", total=len(checks))
        sink = _sink(stack, sink_port) if sink_port else None

        def told(result: Result) -> None:
            bar.advance(task)
            if plain:
                print(report.line(result), flush=True)

        options = {"timeout_s": timeout_s, "settle_s": settle_s}
        results = run(checks, url, sink, headers=headers, verify=not insecure, told=told, **options)
    if as_json:
        print(json.dumps(report.as_json(url, results), indent=2, ensure_ascii=False))
    else:
        if not plain:
            from rich.console import Console

            Console().print(report.table(results))
        print(report.summary(results))
    if not report.conforms(results):
        raise typer.Exit(1)


def _header(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise typer.BadParameter(f"write NAME=VALUE, not {text!r}", param_hint="--header")
    return name.strip(), value


def _sink(stack: contextlib.ExitStack, port: int) -> Sink:
    try:
        return stack.enter_context(Sink(port))
    except OSError as e:
        raise typer.BadParameter(f"can't listen on port {port}: {e.strerror}", param_hint="--sink-port") from None
