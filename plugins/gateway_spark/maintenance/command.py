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

if TYPE_CHECKING:
    from . import Care, Done, Place


class Format(Enum):
    """The formats of tables."""

    parquet = "parquet"
    delta = "delta"
    iceberg = "iceberg"


Trigger = Annotated[
    str | None,
    typer.Argument(help="The trigger whose tables these are, with their quarantine tables.", show_default=False),
]
Config = Annotated[
    list[Path] | None, typer.Option("--config", "-c", help="A config file or directory; may be repeated.")
]
TableOption = Annotated[str | None, typer.Option("--table", help="A table's path, in place of a trigger.")]
FormatOption = Annotated[Format, typer.Option("--format", help="The format of --table.")]
DataDir = Annotated[Path | None, typer.Option(help="The gateway's data directory.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]
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
    """Show tables: their rows, files, bytes, and how many files there are of each size.

    Exit codes: 0 shown, 1 the config has faults, 2 wrong usage, 3 Spark can't run.
    """

    def show(place: Place, care: Care) -> None:
        found = care.found()
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
    target_size: Annotated[
        str, typer.Option(help="Files smaller than this are merged, to files of about it.")
    ] = "128m",
    data_dir: DataDir = None,
    dry_run: DryRun = False,
    memory: Memory = "1g",
    as_json: Json = False,
) -> None:
    """Merge small files. A parquet table must not be written meanwhile: stop its gateway or its submitted query, and
    start it again afterwards; it goes on where it was. Delta and Iceberg tables may be written meanwhile.

    Exit codes: 0 done, 1 a table could not be done or the config has faults, 2 wrong usage, 3 Spark can't run.
    """
    from . import Wish

    wish = Wish(_size(target_size), dry_run=dry_run, say=_said)
    _each(trigger, config, table, format, data_dir, memory, _doing(lambda c: c.compact(wish), as_json))


def retain(
    trigger: Trigger = None,
    older_than: Annotated[
        str, typer.Option(help="Rows older than this are deleted: 90s, 15m, 12h, 30d, 8w.", show_default=False)
    ] = ...,  # type: ignore[assignment]  # typer's word for a required option
    config: Config = None,
    table: TableOption = None,
    format: FormatOption = Format.parquet,
    column: Annotated[str, typer.Option(help="The timestamp that says how old a row is; rows without one stay.")] = (
        "received"
    ),
    data_dir: DataDir = None,
    dry_run: DryRun = False,
    memory: Memory = "1g",
    as_json: Json = False,
) -> None:
    """Delete old rows. A parquet table must not be written meanwhile, as with compact.

    Exit codes: 0 done, 1 a table could not be done or the config has faults, 2 wrong usage, 3 Spark can't run.
    """
    from . import Wish

    wish = Wish(column=column, before=datetime.now(UTC) - _span(older_than), dry_run=dry_run, say=_said)
    _each(trigger, config, table, format, data_dir, memory, _doing(lambda c: c.retain(wish), as_json))


def _doing(do: Callable[[Care], Done], as_json: bool) -> Callable[[Place, Care], None]:
    def one(place: Place, care: Care) -> None:
        if care.found() is None:
            return
        done = do(care)
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
    do: Callable[[Place, Care], None],
) -> None:
    """Does this with each of the tables, and goes on after a fault."""
    from gateway_core.cli import common

    from ..errors import SparkFault
    from ..tables.owner import place_of
    from . import Place, care
    from .places import places, sink_of

    if (trigger is None) == (table is None):
        raise typer.BadParameter("name a trigger, or a table with --table")
    sink = None
    if trigger is not None:
        from gateway_core.config.load import load
        from gateway_core.registry import Registry

        sink = sink_of(load(common.config_paths(config), Registry.installed()), trigger)
    failed = False
    with _session(sink.format if sink else format.value, memory, sink.conf if sink else {}) as spark:
        if sink is not None:
            assert trigger is not None
            found = places(spark, sink, common.settings(data_dir=data_dir).data_dir, trigger)
        else:
            assert table is not None
            found = [Place(place_of(table), format.value)]
            if care(spark, found[0]).found() is None:
                raise common.CommandError(f"there is no {format.value} table at {found[0].path}")
        for place in found:
            try:
                do(place, care(spark, place))
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


def _said(step: str) -> None:
    print(f"tidegate: {step}", file=sys.stderr, flush=True)


def _size(text: str) -> int:
    match = re.fullmatch(r"([1-9][0-9]*)([kmg]?)b?", text.strip().lower())
    if match is None:
        raise typer.BadParameter(f"{text!r} is no size: write 64m, 128m, 1g")
    return int(match[1]) * _UNITS[match[2]]


def _span(text: str) -> timedelta:
    match = re.fullmatch(r"([1-9][0-9]*)([smhdw])", text.strip().lower())
    if match is None:
        raise typer.BadParameter(f"{text!r} is no time: write 12h, 30d, 8w")
    try:
        return timedelta(**{_TIMES[match[2]]: int(match[1])})
    except OverflowError:
        raise typer.BadParameter(f"{text!r} is too long") from None
