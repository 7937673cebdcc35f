"""`tidegate send`: its arguments and help."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gateway_core.contract.cli.options import Json

HEADER_HELP = "A header for each request, NAME=VALUE; NAME=@FILE reads the value from a file. Can be repeated."


class Mode(StrEnum):
    binary = "binary"
    structured = "structured"
    batch = "batch"


def send(
    url: Annotated[str, typer.Argument(help="The ingress address of a broker.")],
    file: Annotated[
        Path | None,
        typer.Argument(
            help="A file of JSON events: one per line, an array, or a single event. Use - for standard input."
        ),
    ] = None,
    type_: Annotated[str | None, typer.Option("--type", help="Send one event of this type.")] = None,
    source: Annotated[str, typer.Option(help="Its source.")] = "/tidegate/send",
    id_: Annotated[str | None, typer.Option("--id", help="Its id (default: random).")] = None,
    subject: Annotated[str | None, typer.Option(help="Its subject.")] = None,
    data: Annotated[str | None, typer.Option(help="Its data; @FILE reads a file.")] = None,
    content_type: Annotated[
        str | None, typer.Option(help="Its datacontenttype (default: guessed from the data).")
    ] = None,
    ext: Annotated[list[str] | None, typer.Option(help="Another attribute, NAME=VALUE. Can be repeated.")] = None,
    mode: Annotated[Mode, typer.Option(help="Content mode.")] = Mode.structured,
    batch_size: Annotated[int, typer.Option(min=1, help="Number of events per batch.")] = 100,
    rate: Annotated[float | None, typer.Option(min=0.001, help="Maximum events per second.")] = None,
    retry: Annotated[
        int, typer.Option(min=0, help="Number of retries after a temporary failure (503, no response).")
    ] = 5,
    in_flight: Annotated[int, typer.Option(min=1, max=1000, help="Number of concurrent requests.")] = 8,
    header: Annotated[list[str] | None, typer.Option(help=HEADER_HELP)] = None,
    ca_file: Annotated[Path | None, typer.Option(help="Authorities to trust (PEM) instead of the system's.")] = None,
    cert_file: Annotated[Path | None, typer.Option(help="The client's certificate chain, PEM.")] = None,
    key_file: Annotated[Path | None, typer.Option(help="Its private key, if it is not in --cert-file.")] = None,
    as_json: Json = False,
) -> None:
    """Send events to an address. The exit code is 1 if any event was not accepted."""
    from .send import Options, send_events

    single = {"type": type_, "source": source, "id": id_, "subject": subject, "datacontenttype": content_type}
    tls = ca_file, cert_file, key_file
    options = Options(mode.value, batch_size, rate, retry, in_flight, as_json, header or (), tls)
    raise typer.Exit(send_events(url, file, single, data, ext or [], options))
