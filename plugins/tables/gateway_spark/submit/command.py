"""The commands `tidegate spark wheel` and `tidegate spark submit`."""

from __future__ import annotations

import sys
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from gateway_core.contract.cli.options import Config, DataDir


class DeployMode(Enum):
    """Where the job's driver runs."""

    client = "client"
    cluster = "cluster"


def wheel(
    folder: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="The target folder; it is created if it does not exist.")
    ] = Path("."),
) -> None:
    """Write the wheel that a Spark cluster needs to run tables: pure Python; for a broker in Kafka, PySpark is the only
    other requirement. `tidegate spark submit` creates one itself. Prints its path.

    Exit codes: 0 written, 3 could not be written.
    """
    from .wheel import write_wheel

    print(write_wheel(folder))


def submit(
    trigger: Annotated[str, typer.Argument(help="The trigger whose table to fill; it must have `runs: submitted`.")],
    more: Annotated[
        list[str] | None, typer.Argument(metavar="[-- ARGS]", help="More arguments for spark-submit, after `--`.")
    ] = None,
    config: Config = None,
    master: Annotated[
        str | None,
        typer.Option(help="The cluster: spark://HOST:7077, yarn, k8s://…, local[N]. Default: the config's `master`."),
    ] = None,
    deploy_mode: Annotated[DeployMode, typer.Option(help="Whether the driver runs here or on the cluster.")] = (
        DeployMode.client
    ),
    wheel: Annotated[Path | None, typer.Option(help="A wheel from `tidegate spark wheel`; created by default.")] = None,
    data_dir: DataDir = None,
) -> None:
    """Fill a trigger's table on a Spark cluster with spark-submit, from the same config as the gateway. Needs a broker
    with the channel kafka. Prints a line for each batch with rows; Ctrl-C and SIGTERM finish the current batch first.

    Exit codes: 0 stopped, 1 the job failed or the config has faults, 2 wrong usage, 3 it can't be submitted.
    """
    from gateway_core.contract.cli import common
    from gateway_core.contract.configs import installed, load

    from .run import Submission, job_of, run

    settings = common.settings(data_dir=data_dir)
    registry = installed()
    job = job_of(load(common.config_paths(config), registry), settings, registry, trigger)
    submission = Submission(replace(job, master=master or job.master), deploy_mode.value, wheel, more or ())
    for note in submission.notes():
        print(f"tidegate: {note}", file=sys.stderr)
    raise typer.Exit(run(submission))
