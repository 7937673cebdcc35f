"""The commands `tidegate spark tables`, `compact` and `retain`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway_core.contract.cli.options import Config, DataDir

if TYPE_CHECKING:
    from . import MaintenanceResult, TableMaintenance, TableRef


class Format(Enum):
    """The formats of tables."""

    parquet = "parquet"
    delta = "delta"
    iceberg = "iceberg"


Trigger = Annotated[
    str | None,
    typer.Argument(help="The trigger whose tables to maintain, with their quarantine tables.", show_default=False),
]
TableOption = Annotated[str | None, typer.Option("--table", help="The path of a table, in place of a trigger.")]
FormatOption = Annotated[Format, typer.Option("--format", help="The format of --table.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]
Memory = Annotated[str, typer.Option(help="Memory of Spark's JVM.")]
Json = Annotated[bool, typer.Option("--json", help="Print one line of JSON for each table.")]

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_TIMES = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def tables(
    trigger: Trigger = None,
    config: Config = None,
    table: TableOption = None,
    format: FormatOption = Format.parquet,
    data_dir: DataDir = None,
    memory: Memory = "1g",
    as_json: Json = False,
) -> None:
    """Show tables: their rows, files, bytes, and the number of files of each size.

    Exit codes: 0 shown, 1 the config has faults, 2 wrong usage, 3 Spark can't run.
    """

    def show(ref: TableRef, maintenance: TableMaintenance) -> None:
        found = maintenance.found()
        if found is None:
            return
        if as_json:
            typer.echo(json.dumps(asdict(found)))
            return
        sizes = " ".join(f"{size}:{n}" for size, n in found.sizes.items() if n)
        typer.echo(
            f"{found.table} ({found.format}): {found.rows} rows, {found.files} files, {found.bytes} bytes ({sizes})"
        )

    _each(trigger, config, table, format, data_dir, memory, show)


def compact(
    trigger: Trigger = None,
    config: Config = None,
    table: TableOption = None,
    format: FormatOption = Format.parquet,
    target_size: Annotated[str, typer.Option(help="Merge smaller files into files of about this size.")] = "128m",
    data_dir: DataDir = None,
    dry_run: DryRun = False,
    memory: Memory = "1g",
    as_json: Json = False,
) -> None:
    """Merge small files. Nothing may write to a parquet table meanwhile: stop its gateway or submitted query first and
    start it again afterwards; it continues where it was. Delta and Iceberg tables may be written meanwhile.

    Exit codes: 0 done, 1 a table failed or the config has faults, 2 wrong usage, 3 Spark can't run.
    """
    from . import MaintenanceRequest

    request = MaintenanceRequest(_size(target_size), dry_run=dry_run, report=_print_step)
    _each(trigger, config, table, format, data_dir, memory, _doing(lambda c: c.compact(request), as_json))


def retain(
    trigger: Trigger = None,
    older_than: Annotated[
        str, typer.Option(help="Delete rows older than this: 90s, 15m, 12h, 30d, 8w.", show_default=False)
    ] = ...,  # type: ignore[assignment]  # typer's word for a required option
    config: Config = None,
    table: TableOption = None,
    format: FormatOption = Format.parquet,
    column: Annotated[str, typer.Option(help="The timestamp for the age of a row; rows without one stay.")] = (
        "received"
    ),
    data_dir: DataDir = None,
    dry_run: DryRun = False,
    memory: Memory = "1g",
    as_json: Json = False,
) -> None:
    """Delete old rows. Nothing may write to a parquet table meanwhile, as with compact.

    Exit codes: 0 done, 1 a table failed or the config has faults, 2 wrong usage, 3 Spark can't run.
    """
    from . import MaintenanceRequest

    request = MaintenanceRequest(
        column=column, before=datetime.now(UTC) - _span(older_than), dry_run=dry_run, report=_print_step
    )
    _each(trigger, config, table, format, data_dir, memory, _doing(lambda c: c.retain(request), as_json))


def _doing(
    do: Callable[[TableMaintenance], MaintenanceResult], as_json: bool
) -> Callable[[TableRef, TableMaintenance], None]:
    def one(ref: TableRef, maintenance: TableMaintenance) -> None:
        if maintenance.found() is None:
            return
        done = do(maintenance)
        if as_json:
            typer.echo(json.dumps(asdict(done)))
            return
        would = "would replace" if done.dry_run else "replaced"
        added = "" if done.dry_run else f" by {done.files_added}"
        deleted = (
            f", {done.rows_deleted} rows {'to delete' if done.dry_run else 'deleted'}" if done.rows_deleted else ""
        )
        typer.echo(f"{done.table} ({done.format}): {would} {done.files_removed} files{added}{deleted}")

    return one


def _each(
    trigger: str | None,
    config: list[Path] | None,
    table: str | None,
    format: Format,
    data_dir: Path | None,
    memory: str,
    do: Callable[[TableRef, TableMaintenance], None],
) -> None:
    """Calls this for each of the tables, and continues after a fault."""
    from gateway_core.contract.cli import common

    from ..errors import SparkFault
    from ..tables.owner import location_of
    from . import TableRef, maintenance_of
    from .trigger_tables import sink_of, trigger_tables

    if (trigger is None) == (table is None):
        raise typer.BadParameter("name a trigger, or a table with --table")
    sink = None
    if trigger is not None:
        from gateway_core.contract.configs import installed, load

        sink = sink_of(load(common.config_paths(config), installed()), trigger)
    failed = False
    with _session(sink.format if sink else format.value, memory, sink.conf if sink else {}) as spark:
        if sink is not None:
            assert trigger is not None
            found = trigger_tables(spark, sink, common.settings(data_dir=data_dir).data_dir, trigger)
        else:
            assert table is not None
            found = [TableRef(location_of(table), format.value)]
            if maintenance_of(spark, found[0]).found() is None:
                raise common.CommandError(f"there is no {format.value} table at {found[0].path}")
        for ref in found:
            try:
                do(ref, maintenance_of(spark, ref))
            except SparkFault as e:
                failed = True
                typer.echo(f"tidegate: {e}", err=True)
    if failed:
        raise typer.Exit(1)


@contextmanager
def _session(format: str, memory: str, conf: dict[str, str]) -> Iterator[Any]:
    from ..query import session

    spark = session(
        delta=format == "delta", iceberg=format == "iceberg", memory=memory, app="tidegate spark", conf=conf
    )
    try:
        yield spark
    finally:
        spark.stop()


def _print_step(step: str) -> None:
    print(f"tidegate: {step}", file=sys.stderr, flush=True)


def _size(text: str) -> int:
    match = re.fullmatch(r"([1-9][0-9]*)([kmg]?)b?", text.strip().lower())
    if match is None:
        raise typer.BadParameter(f"{text!r} is not a size: write 64m, 128m, 1g")
    return int(match[1]) * _UNITS[match[2]]


def _span(text: str) -> timedelta:
    match = re.fullmatch(r"([1-9][0-9]*)([smhdw])", text.strip().lower())
    if match is None:
        raise typer.BadParameter(f"{text!r} is not a duration: write 12h, 30d, 8w")
    try:
        return timedelta(**{_TIMES[match[2]]: int(match[1])})
    except OverflowError:
        raise typer.BadParameter(f"{text!r} is too long") from None
