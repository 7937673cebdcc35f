"""Names, arguments and help of the commands. Each runs code in the module of its name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from ..contract.cli.options import DataDir, Json, Paths
from .lazy import Commands

app = typer.Typer(
    cls=Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["auto", "text", "json"]
Reload = Literal["watch", "signal", "off"]
Shell = Literal["bash", "zsh", "fish", "powershell"]


def _print_version(wanted: bool) -> None:
    if wanted:
        from ..contract.version import __version__

        typer.echo(f"tidegate {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    ctx: typer.Context,
    log_level: Annotated[LogLevel | None, typer.Option(help="Log level; debug also shows tracebacks.")] = None,
    version: Annotated[
        bool,
        typer.Option("--version", "-V", is_eager=True, callback=_print_version, help="Print the version and exit."),
    ] = False,
) -> None:
    """Tidegate: an event gateway for CloudEvents."""
    ctx.obj = {"log_level": log_level}


@app.command(rich_help_panel="Run")
def run(
    ctx: typer.Context,
    paths: Paths = None,
    data_dir: DataDir = None,
    admin: Annotated[
        str | None, typer.Option(help='Address of the admin API, "socket" or "off". [TIDEGATE_ADMIN]')
    ] = None,
    log_level: Annotated[LogLevel | None, typer.Option(help="What to log. [TIDEGATE_LOG_LEVEL]")] = None,
    log_format: Annotated[LogFormat | None, typer.Option(help="The format of the log. [TIDEGATE_LOG_FORMAT]")] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes that share the ingress addresses. [TIDEGATE_WORKERS]")
    ] = None,
    admin_hosts: Annotated[
        str | None, typer.Option(help="More host names of the admin API, separated by commas. [TIDEGATE_ADMIN_HOSTS]")
    ] = None,
    admin_tls: Annotated[Path | None, typer.Option(help="Certificate of the admin API. [TIDEGATE_ADMIN_TLS]")] = None,
    watchdog_s: Annotated[
        float | None, typer.Option(help="How long the event loop may hang; 0: forever. [TIDEGATE_WATCHDOG_S]")
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

    # every other option has the name of its setting
    flags = {name: value for name, value in ctx.params.items() if name != "paths"}
    flags["log_level"] = log_level or ctx.obj["log_level"]
    raise typer.Exit(run_gateway(paths, flags))


@app.command(rich_help_panel="Run")
def check(
    paths: Paths = None,
    connect: Annotated[bool, typer.Option("--connect", help="Also try the endpoints: hosts, ports, files.")] = False,
    secrets: Annotated[
        bool, typer.Option("--secrets", help="Also list all secrets: origin, whether they are set, their uses.")
    ] = False,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Check a config, and the files of keys and certificates that it names; exit code 1 if there are faults.

    With --secrets the exit code is also 1 if a secret is missing, even one that nothing uses.
    """
    from .check import check_config

    raise typer.Exit(check_config(paths, connect=connect, secrets=secrets, data_dir=data_dir, as_json=as_json))


@app.command(rich_help_panel="Look after data")
def orphans(
    paths: Paths = None,
    remove: Annotated[
        list[str] | None,
        typer.Option("--remove", metavar="NAME", help="Remove the orphan of this name. Can be repeated."),
    ] = None,
    everything: Annotated[bool, typer.Option("--remove-all", help="Remove all orphans but dead letters.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Remove without asking.")] = False,
    drop: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="With --yes: remove also what has events that wait, up to N of them each."
        ),
    ] = 0,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """List and remove what earlier configs left behind: sessions, groups, queues, logs, cursors, dead letters.

    The config no longer has them, but events may wait there, and servers may keep collecting more.

    --remove and --remove-all remove them at the server or in the data directory, with all that waits in them. A server
    is reached with the login of a component of this config. What somebody reads from is not removed, and what has
    events that wait only with your consent on a terminal, or with --drop: another gateway may have the same name.

    Exit codes: 0 listed (even if there are none) or removed; 1 something was not removed.
    """
    from .orphans import orphans as show

    raise typer.Exit(
        show(paths, remove or (), everything=everything, yes=yes, drop=drop, data_dir=data_dir, as_json=as_json)
    )


@app.command(rich_help_panel="This installation")
def version(as_json: Json = False) -> None:
    """Print the version, and whether the hot modules are compiled."""
    from .installation import print_version

    print_version(as_json=as_json)


@app.command(rich_help_panel="This installation")
def completion(shell: Annotated[Shell, typer.Argument(help="Your shell.")]) -> None:
    """Print the completion script of a shell.

    bash: [bold]source <(tidegate completion bash)[/bold]
    """
    from typer._completion_shared import get_completion_script

    typer.echo(get_completion_script(prog_name="tidegate", complete_var=COMPLETE, shell=shell))


COMPLETE = "_TIDEGATE_COMPLETE"


def prepare_completion() -> None:
    """Prepares the answer for a shell's completion script; does nothing otherwise."""
    if COMPLETE in os.environ:
        from typer._completion_classes import completion_init

        completion_init()
