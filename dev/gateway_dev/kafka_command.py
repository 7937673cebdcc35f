"""The command `tidegate dev kafka`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from gateway_java import jars, java

from gateway_core.contract.errors import StartError

from .running import obey_ctrl_c, progress, serve

if TYPE_CHECKING:
    from gateway_java.kafka import KafkaBroker

_TOPIC = re.compile(r"([A-Za-z0-9._-]{1,249})(?::([1-9]\d{0,3}))?")
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
    from gateway_java.kafka import KafkaBroker

    topics = _topics(topic or [])
    obey_ctrl_c()
    try:
        broker = KafkaBroker(data_dir or java.cache_dir() / "kafka", port=port)
        _run(broker, topics, fresh)
    except StartError as e:
        print(f"tidegate: {e}", file=sys.stderr)
        raise typer.Exit(1) from None


def _run(broker: KafkaBroker, topics: dict[str, int], fresh: bool) -> None:
    from gateway_java.kafka import broker_artifacts

    broker.check_ports()  # before jars are fetched for a minute
    wanted = broker_artifacts(broker.version)
    if not jars.cached(wanted):
        with progress(f"Fetching Apache Kafka {broker.version} (60 MB, once; takes about a minute)"):
            jars.fetch(wanted, java.find())
    with broker.alone():
        if fresh:
            broker.erase()
        try:
            with progress("Starting"):
                broker.start()
            for name, partitions in topics.items():
                broker.create_topic(name, partitions)
            code = serve(broker, lambda: _announce(broker, topics), "Kafka")
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


def _topics(wanted: list[str]) -> dict[str, int]:
    found = {}
    for text in wanted:
        parts = _TOPIC.fullmatch(text)
        if parts is None or parts[1] in (".", ".."):
            raise typer.BadParameter(f"write NAME or NAME:PARTITIONS, not {text!r}", param_hint="--topic")
        found[parts[1]] = int(parts[2] or 1)
    return found
