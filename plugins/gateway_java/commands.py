"""The command `tidegate dev`."""

from __future__ import annotations

import re
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway_core.contract.errors import StartError

from . import jars, java

if TYPE_CHECKING:
    from .kafka import KafkaBroker

app = typer.Typer(
    help="Run services for a gateway on this machine, to try things out.", no_args_is_help=True, add_completion=False
)

_TOPIC = re.compile(r"([A-Za-z0-9._-]{1,249})(?::([1-9]\d{0,3}))?")
_POLL_S = 0.2
_READY = """\
Apache Kafka {version} is ready at {bootstrap}
  data    {folder}
  topics  {topics}

A gateway that stores its events there, and has a trigger that writes records:

  brokers:
    default:
      channel:
        kafka:
          bootstrap: {bootstrap}
  triggers:
    records:
      subscriber: kafka://{bootstrap}/{topic}

Ctrl-C stops it. The data is kept; `--fresh` deletes it first.
"""


@app.callback()
def _dev() -> None:
    """Run services for a gateway on this machine, to try things out."""


@app.command()
def kafka(
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port on 127.0.0.1; 0 for a free one.")] = 9092,
    data_dir: Annotated[
        Path | None, typer.Option(help="The data folder. Default: a folder in Tidegate's cache.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Delete existing data first.")] = False,
    topic: Annotated[
        list[str] | None, typer.Option(metavar="NAME[:PARTITIONS]", help="Create a topic; may be repeated.")
    ] = None,
) -> None:
    """Run an Apache Kafka broker on this machine until Ctrl-C. Only for trying things out: it has one node, accepts
    anyone who can reach 127.0.0.1, and downloads Kafka at the first start. Needs PySpark, whose Ivy downloads it, and a
    Java: tidegate[spark,java] installs both.

    Exit codes: 0 stopped, 1 could not start or died, 2 wrong usage.
    """
    from .kafka import KafkaBroker

    topics = _topics(topic or [])
    for number in (signal.SIGINT, signal.SIGTERM):  # even if a background shell made it ignore Ctrl-C
        signal.signal(number, signal.default_int_handler)
    try:
        broker = KafkaBroker(data_dir or java.cache_dir() / "kafka", port=port)
        _run(broker, topics, fresh)
    except StartError as e:
        print(f"tidegate: {e}", file=sys.stderr)
        raise typer.Exit(1) from None


def _run(broker: KafkaBroker, topics: dict[str, int], fresh: bool) -> None:
    from .kafka import broker_artifacts

    broker.check_ports()  # before jars are fetched for a minute
    wanted = broker_artifacts(broker.version)
    if not jars.cached(wanted):
        with _progress(f"Fetching Apache Kafka {broker.version} (60 MB, once; takes about a minute)"):
            jars.fetch(wanted, java.find())
    with broker.alone():
        if fresh:
            broker.erase()
        try:
            with _progress("Starting"):
                broker.start()
            for name, partitions in topics.items():
                broker.create_topic(name, partitions)
            code = _serve(broker, topics)
        finally:
            broker.kill()  # in case it was not stopped properly
    raise typer.Exit(code)


def _announce(broker: KafkaBroker, topics: dict[str, int]) -> None:
    made = ", ".join(f"{name} ({count} partition{'s' * (count > 1)})" for name, count in topics.items())
    text = _READY.format(
        version=broker.version,
        bootstrap=broker.bootstrap,
        folder=broker.folder,
        topics=made or "are created when they are first used",
        topic=next(iter(topics), "events"),
    )
    print(text, flush=True)


def _serve(broker: KafkaBroker, topics: dict[str, int]) -> int:
    """Says that the broker is ready. Returns 0 when it was stopped, 1 when it died."""
    try:
        _announce(broker, topics)  # whoever reads it may stop the broker at once
        while broker.pid is not None:
            time.sleep(_POLL_S)
    except KeyboardInterrupt:
        print("Stopping (Ctrl-C again ends it at once).", flush=True)
        broker.stop()
        return 0
    print(f"tidegate: Kafka ended unexpectedly; {broker.tail()}", file=sys.stderr)
    return 1


def _topics(wanted: list[str]) -> dict[str, int]:
    found = {}
    for text in wanted:
        parts = _TOPIC.fullmatch(text)
        if parts is None or parts[1] in (".", ".."):
            raise typer.BadParameter(f"write NAME or NAME:PARTITIONS, not {text!r}", param_hint="--topic")
        found[parts[1]] = int(parts[2] or 1)
    return found


def _progress(what: str) -> Any:
    """Shows the current step: on a terminal with the elapsed time, else in one line."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        console.print(f"{what} …", markup=False, soft_wrap=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    progress.add_task(what, total=None)
    return progress
