"""The commands `tidegate spark wheel` and `tidegate spark submit`."""

from __future__ import annotations

import sys
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer


class DeployMode(Enum):
    """Where the job's driver runs."""

    client = "client"
    cluster = "cluster"


def wheel(
    folder: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="Where to; it is made where it does not exist.")
    ] = Path("."),
) -> None:
    """Write the wheel that a Spark cluster needs to run tables: pure Python; for a broker in Kafka it is all that is
    needed beside PySpark. `tidegate spark submit` makes one by itself. Prints its path.

    Exit codes: 0 written, 3 could not be written.
    """
    from .wheel import write_wheel

    print(write_wheel(folder))


def submit(
    trigger: Annotated[str, typer.Argument(help="The trigger whose table is filled; it says `runs: submitted`.")],
    more: Annotated[
        list[str] | None, typer.Argument(metavar="[-- ARGS]", help="What else spark-submit gets, after `--`.")
    ] = None,
    config: Annotated[
        list[Path] | None, typer.Option("--config", "-c", help="A config file or directory; may be repeated.")
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(help="Where: spark://HOST:7077, yarn, k8s://…, local[N]. Default: the config's `master`."),
    ] = None,
    deploy_mode: Annotated[DeployMode, typer.Option(help="Whether the driver runs here or on the cluster.")] = (
        DeployMode.client
    ),
    wheel: Annotated[
        Path | None, typer.Option(help="A wheel of `tidegate spark wheel`; made anew where absent.")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="The gateway's data directory.")] = None,
) -> None:
    """Fill a trigger's table on a Spark cluster, by spark-submit, from the same config as the gateway's. Needs a broker
    whose channel is kafka. Prints a line for each batch with rows; Ctrl-C and SIGTERM let the batch under way end.

    Exit codes: 0 stopped, 1 the job failed or the config has faults, 2 wrong usage, 3 it can't be submitted.
    """
    from gateway_core.cli import common
    from gateway_core.config.load import load
    from gateway_core.registry import Registry

    from .run import Submission, job_of, run

    settings = common.settings(data_dir=data_dir)
    registry = Registry.installed()
    job = job_of(load(common.config_paths(config), registry), settings, registry, trigger)
    submission = Submission(replace(job, master=master or job.master), deploy_mode.value, wheel, more or ())
    for note in submission.notes():
        print(f"tidegate: {note}", file=sys.stderr)
    raise typer.Exit(run(submission))
