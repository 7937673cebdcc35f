"""The commands' names, arguments and help. What they do is in the module of the same name."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from . import complete, control_app, look_app
from .dlq_app import dlq
from .lazy import Commands

app = typer.Typer(
    cls=Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(dlq, name="dlq")


class LogLevel(StrEnum):
    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


class LogFormat(StrEnum):
    auto = "auto"
    text = "text"
    json = "json"


class Reload(StrEnum):
    watch = "watch"
    signal = "signal"
    off = "off"


class Mode(StrEnum):
    binary = "binary"
    structured = "structured"
    batch = "batch"


class Shell(StrEnum):
    bash = "bash"
    zsh = "zsh"
    fish = "fish"
    powershell = "powershell"


Paths = Annotated[
    list[Path] | None,
    typer.Argument(help="Config files or directories. Default: $TIDEGATE_CONFIG, else ./tidegate.yaml."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DataDir = Annotated[Path | None, typer.Option(help="Where the gateway keeps its state. [TIDEGATE_DATA_DIR]")]
AdminAddress = Annotated[str | None, typer.Option("--admin", help="Address of the admin API.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        from .. import __version__

        typer.echo(f"tidegate {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    ctx: typer.Context,
    log_level: Annotated[LogLevel | None, typer.Option(help="What is logged; debug also shows tracebacks.")] = None,
    version: Annotated[
        bool,
        typer.Option("--version", "-V", is_eager=True, callback=_print_version, help="Print the version and exit."),
    ] = False,
) -> None:
    """Tidegate: an event gateway for CloudEvents."""
    ctx.obj = {"log_level": log_level.value if log_level else None}


@app.command()
def run(
    ctx: typer.Context,
    paths: Paths = None,
    data_dir: DataDir = None,
    admin: Annotated[
        str | None,
        typer.Option(help='Address of the admin API, "socket" or "off". [TIDEGATE_ADMIN]'),
    ] = None,
    log_level: Annotated[LogLevel | None, typer.Option(help="What is logged. [TIDEGATE_LOG_LEVEL]")] = None,
    log_format: Annotated[LogFormat | None, typer.Option(help="How it is logged. [TIDEGATE_LOG_FORMAT]")] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes that share the ingress addresses. [TIDEGATE_WORKERS]")
    ] = None,
    admin_hosts: Annotated[
        str | None, typer.Option(help="More host names of the admin API, with commas between. [TIDEGATE_ADMIN_HOSTS]")
    ] = None,
    watchdog_s: Annotated[
        float | None, typer.Option(help="How long the event loop may stand still; 0: for ever. [TIDEGATE_WATCHDOG_S]")
    ] = None,
    metrics: Annotated[
        bool | None, typer.Option("--metrics/--no-metrics", help="Measure, and serve metrics. [TIDEGATE_METRICS]")
    ] = None,
    reload: Annotated[Reload | None, typer.Option(help="When the config is read again. [TIDEGATE_RELOAD]")] = None,
    drain_timeout_s: Annotated[
        float | None, typer.Option(help="How long a stop waits for deliveries. [TIDEGATE_DRAIN_TIMEOUT_S]")
    ] = None,
) -> None:
    """Run the gateway until SIGINT or SIGTERM; a second signal ends it at once.

    Exit codes: 0 stopped, 1 faults in the config, 2 wrong usage, 3 could not start, 130 ended at once.
    """
    from .run import run_gateway

    flags = {
        "data_dir": data_dir,
        "admin": admin,
        "log_level": log_level.value if log_level else ctx.obj["log_level"],
        "log_format": log_format.value if log_format else None,
        "workers": workers,
        "admin_hosts": admin_hosts,
        "watchdog_s": watchdog_s,
        "metrics": metrics,
        "reload": reload.value if reload else None,
        "drain_timeout_s": drain_timeout_s,
    }
    raise typer.Exit(run_gateway(paths, flags))


@app.command()
def check(
    paths: Paths = None,
    connect: Annotated[bool, typer.Option("--connect", help="Also try the real ends: hosts, ports, files.")] = False,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Check a config and report all its faults; exit code 1 where there are any."""
    from .check import check_config

    raise typer.Exit(check_config(paths, connect=connect, data_dir=data_dir, as_json=as_json))


@app.command("test")
def play_scenarios(
    paths: Paths = None,
    scenario: Annotated[
        list[str] | None, typer.Option(help="Only scenarios of this name; * stands for any text; may be repeated.")
    ] = None,
    junit: Annotated[Path | None, typer.Option(help="Also write a JUnit report into this file.")] = None,
    as_json: Json = False,
) -> None:
    """Play the scenarios of a config, offline and in seconds.

    They stand in its sections `tests:` and in files *.scenario.yaml beside it. Exit codes: 0 all passed, 1 some failed,
    there are none, or faults in the config.
    """
    from .scenarios import play

    raise typer.Exit(play(paths, scenario or [], junit, as_json=as_json))


@app.command()
def explain(
    event: Annotated[Path, typer.Argument(help="Events in JSON: one a line, an array, or a single one; - is stdin.")],
    paths: Paths = None,
    broker: Annotated[
        str | None, typer.Option(help="Only this broker or bridge.", autocompletion=complete.brokers)
    ] = None,
    trigger: Annotated[str | None, typer.Option(help="Only this trigger.", autocompletion=complete.triggers)] = None,
    admin: Annotated[str | None, typer.Option("--admin", help="Ask the gateway with this admin API instead.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Ask the gateway that runs with this data directory.")] = None,
    as_json: Json = False,
) -> None:
    """Say what would be done with an event: who wants it and why, what would be sent, the retries. Nothing is sent.

    It is asked of a config, or with --admin or --data-dir of a gateway that runs.

    Exit codes: 0 every event is wanted, 1 one is refused or nobody wants it (or faults in the config), 2 the input is
    no event in JSON.
    """
    from .explain import explain_events

    raise typer.Exit(explain_events(event, paths, broker, trigger, admin=admin, data_dir=data_dir, as_json=as_json))


@app.command()
def send(
    url: Annotated[str, typer.Argument(help="Where to: the ingress address of a broker.")],
    file: Annotated[
        Path | None,
        typer.Argument(help="Events in JSON: one a line, an array, or a single one; - is standard input."),
    ] = None,
    type_: Annotated[str | None, typer.Option("--type", help="Send one event of this type.")] = None,
    source: Annotated[str, typer.Option(help="Its source.")] = "/tidegate/send",
    id_: Annotated[str | None, typer.Option("--id", help="Its id; a random one by default.")] = None,
    subject: Annotated[str | None, typer.Option(help="Its subject.")] = None,
    data: Annotated[str | None, typer.Option(help="Its data; @FILE reads a file.")] = None,
    content_type: Annotated[
        str | None, typer.Option(help="Its datacontenttype; by default told from the data.")
    ] = None,
    ext: Annotated[list[str] | None, typer.Option(help="Another attribute, NAME=VALUE; may be repeated.")] = None,
    mode: Annotated[Mode, typer.Option(help="Content mode.")] = Mode.structured,
    batch_size: Annotated[int, typer.Option(min=1, help="Events in one batch.")] = 100,
    rate: Annotated[float | None, typer.Option(min=0.001, help="At most this many events a second.")] = None,
    retry: Annotated[int, typer.Option(min=0, help="Tries after one that failed for now (503, no answer).")] = 5,
    in_flight: Annotated[int, typer.Option(min=1, max=1000, help="Requests at once.")] = 8,
    as_json: Json = False,
) -> None:
    """Send events to an address; exit code 1 where any was not accepted."""
    from .send import Options, send_events

    single = {"type": type_, "source": source, "id": id_, "subject": subject, "datacontenttype": content_type}
    options = Options(mode.value, batch_size, rate, retry, in_flight, as_json)
    raise typer.Exit(send_events(url, file, single, data, ext or [], options))


@app.command()
def status(
    admin: AdminAddress = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Show a running gateway: brokers, triggers, lag. `tidegate top` shows rates, live."""
    from .status import show_status

    raise typer.Exit(show_status(admin, data_dir, as_json=as_json))


control_app.register(app)
look_app.register(app)


@app.command()
def plugins(as_json: Json = False) -> None:
    """List all components that are installed, and what they need."""
    from .plugins import list_plugins

    list_plugins(as_json=as_json)


@app.command()
def schema() -> None:
    """Print the JSON Schema of the config, for editors.

    Write it into a file, and let the config's first line name that file:
    # yaml-language-server: $schema=tidegate.schema.json
    """
    import json

    from ..config.schema import schema as config_schema
    from ..registry import Registry

    typer.echo(json.dumps(config_schema(Registry.installed()), indent=2, ensure_ascii=False))


@app.command()
def version(as_json: Json = False) -> None:
    """Print the version."""
    import platform

    from .. import __version__
    from .common import print_json

    if as_json:
        print_json({"version": __version__, "python": platform.python_version(), "platform": platform.platform()})
    else:
        typer.echo(f"tidegate {__version__}")


@app.command()
def completion(shell: Annotated[Shell, typer.Argument(help="Your shell.")]) -> None:
    """Print the completion script of a shell.

    bash: [bold]source <(tidegate completion bash)[/bold]
    """
    from typer._completion_shared import get_completion_script

    typer.echo(get_completion_script(prog_name="tidegate", complete_var=_COMPLETE, shell=shell.value))


_COMPLETE = "_TIDEGATE_COMPLETE"


def prepare_completion() -> None:
    """Makes ready to answer a shell's completion script; costs nothing else."""
    if _COMPLETE in os.environ:
        from typer._completion_classes import completion_init

        completion_init()
