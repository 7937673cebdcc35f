"""The command `tidegate conformance`."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from gateway_core.contract.cli.options import Json

from .run import CHECKS, Result, chosen, run
from .sink import Sink
from .trigger_config import BadTriggers, Triggers, read

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
    triggers: Annotated[
        Path | None,
        typer.Option(
            help="Also check filters and dead letters: a config with the broker's triggers, at paths of --sink-port."
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
    found = _triggers(triggers, sink_port)
    headers = dict(_header(text) for text in header or [])
    plain = not as_json and not sys.stdout.isatty()
    with contextlib.ExitStack() as stack:
        bar = stack.enter_context(report.progress())
        task = bar.add_task("checks", total=len(checks))
        sink = _sink(stack, sink_port, found.main if found else "") if sink_port else None

        def told(result: Result) -> None:
            bar.advance(task)
            if plain:
                print(report.line(result), flush=True)

        options = {"timeout_s": timeout_s, "settle_s": settle_s}
        results = run(checks, url, sink, headers=headers, verify=not insecure, told=told, triggers=found, **options)
    if as_json:
        more = {"not_seen": _out_of_sight(found)} if found is not None else {}
        print(json.dumps({**report.as_json(url, results), **more}, indent=2, ensure_ascii=False))
    else:
        if not plain:
            from rich.console import Console

            Console().print(report.table(results))
        if found is not None:
            print("".join(f"not seen: {line}\n" for line in _out_of_sight(found)), end="")
        print(report.summary(results))
    if not report.conforms(results):
        raise typer.Exit(1)


def _header(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise typer.BadParameter(f"write NAME=VALUE, not {text!r}", param_hint="--header")
    return name.strip(), value


def _triggers(file: Path | None, port: int | None) -> Triggers | None:
    if file is None:
        return None
    if port is None:
        raise typer.BadParameter("needs --sink-port", param_hint="--triggers")
    try:
        return read(file, port)
    except BadTriggers as e:
        raise typer.BadParameter(str(e), param_hint="--triggers") from None


def _out_of_sight(found: Triggers) -> list[str]:
    """What a run with these triggers can't see, a line each."""
    lines = [f"the trigger {t.name}: {t.unknown}" for t in found.triggers if t.unknown]
    lines += [f"the trigger {name}: its subscriber is elsewhere" for name in found.elsewhere]
    lines += [f"the dead letter of {t.name}: it is elsewhere" for t in found.known if not t.dead]
    return lines


def _sink(stack: contextlib.ExitStack, port: int, main: str) -> Sink:
    try:
        return stack.enter_context(Sink(port, main))
    except OSError as e:
        raise typer.BadParameter(f"can't listen on port {port}: {e.strerror}", param_hint="--sink-port") from None
