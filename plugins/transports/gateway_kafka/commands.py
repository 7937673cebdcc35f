"""The command `tidegate offsets`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer
from gateway_terminal import tables
from pydantic import ValidationError

from gateway_core.contract.cli import common
from gateway_core.contract.cli.common import CommandError
from gateway_core.contract.cli.options import Json, Paths
from gateway_core.contract.configs import installed, load
from gateway_core.contract.faults import near

from . import offsets
from .client_config import KafkaConfig
from .config import Start
from .groups import Group, groups_of
from .offsets import Description, PartitionOffsets

app = typer.Typer(help="Show and reset the offsets of consumer groups.", no_args_is_help=True, add_completion=False)

Bootstrap = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="Use this cluster with --group and --topic, without a config.")
]
Topics = Annotated[list[str] | None, typer.Option("--topic", help="Only this topic; may be repeated.")]


@app.command()
def show(
    paths: Paths = None,
    group: Annotated[str | None, typer.Option(help="Only this group.")] = None,
    topics: Topics = None,
    bootstrap: Bootstrap = None,
    as_json: Json = False,
) -> None:
    """Show the offsets of the consumer groups of a config for each partition: committed, end, lag.

    Includes the groups of its Kafka sources, and of the triggers of brokers with the channel kafka.
    """
    descriptions = anyio.run(offsets.look, _groups(paths, group, topics, bootstrap))
    if as_json:
        common.print_json({"groups": [_json(s) for s in descriptions]})
    else:
        _print(descriptions, ("committed", "end", "lag"))


@app.command()
def reset(
    to: Annotated[
        str, typer.Option(metavar="WHERE", help="earliest, latest, an offset, or a time (2026-01-31T08:00:00Z).")
    ],
    group: Annotated[str, typer.Option(help="The group.")],
    paths: Paths = None,
    topics: Topics = None,
    partition: Annotated[list[int] | None, typer.Option(min=0, help="Only this partition; may be repeated.")] = None,
    bootstrap: Bootstrap = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")] = False,
    as_json: Json = False,
) -> None:
    """Move a consumer group to other offsets: it reads from there when its gateways start again.

    The gateways of the group must be stopped. A time selects the first record at or after it; an offset outside of a
    partition selects its first or last.
    """
    where = _where(to)
    found = _groups(paths, group, topics, bootstrap)
    if len(found) > 1:
        raise CommandError(
            f"the config has a group {group} on {len(found)} clusters: name a config that has one of them"
        )
    if partition and len(found[0].topics) > 1:
        raise typer.BadParameter("the group reads several topics: name one with --topic", param_hint="--partition")
    if not (yes or dry_run or sys.stdin.isatty()):
        raise typer.BadParameter(
            "can't ask for confirmation without a terminal: add --yes or --dry-run", param_hint="--yes"
        )
    description = anyio.run(offsets.plan, found[0], where, partition)
    changes = [p for p in description.offsets if p.to != p.committed]
    if not as_json:
        _print([description], ("committed", "to", "end"))
    applied = bool(changes) and not dry_run and (yes or _agreed(len(changes)))
    if applied:
        anyio.run(offsets.move, description.group, changes)
    if as_json:
        common.print_json({**_json(description), "applied": applied})
    elif not changes:
        print("the group is already there")
    else:
        print(f"{_count(len(changes), 'partition')} moved" if applied else "nothing was changed")
    if changes and not applied and not dry_run:
        raise typer.Exit(1)


def _agreed(count: int) -> bool:
    return typer.confirm(f"Move {_count(count, 'partition')}?", err=True)


def _where(text: str) -> Start:
    try:
        return offsets.start_of(text)
    except ValueError as e:
        raise typer.BadParameter(str(e), param_hint="--to") from None


# -- which groups -------------------------------------------------------------------------------------------------


def _groups(
    paths: Sequence[Path] | None, name: str | None, topics: Sequence[str] | None, bootstrap: str | None
) -> list[Group]:
    """The selected groups. Raises `ConfigError`, `CommandError`, `BadParameter`."""
    if bootstrap is not None:
        return [_named(paths, name, topics, bootstrap)]
    known = groups_of(load(common.config_paths(paths), installed()))
    if not known:
        raise CommandError("the config has no source `kafka`, and no broker with triggers whose channel is `kafka`")
    found = [group for group in known if name in (None, group.name)]
    if not found:
        names = [group.name for group in known]
        raise CommandError(
            f"the config has no group {name}: {near(name or '', names) or 'groups: ' + ', '.join(names)}"
        )
    return _narrowed(found, topics) if topics else found


def _named(paths: Sequence[Path] | None, name: str | None, topics: Sequence[str] | None, bootstrap: str) -> Group:
    if paths:
        raise typer.BadParameter("name a config or a cluster, not both", param_hint="--bootstrap")
    if not name or not topics:
        raise typer.BadParameter("a cluster needs --group and --topic, too", param_hint="--bootstrap")
    try:
        options = KafkaConfig.model_validate({"bootstrap": bootstrap})
    except ValidationError as e:
        raise typer.BadParameter(e.errors()[0]["msg"], param_hint="--bootstrap") from None
    return Group(name, tuple(dict.fromkeys(topics)), options)


def _narrowed(groups: Sequence[Group], topics: Sequence[str]) -> list[Group]:
    """The groups that read any of these topics, limited to these topics."""
    read = {topic for group in groups for topic in group.topics}
    if unknown := [topic for topic in topics if topic not in read]:
        raise CommandError(f"no group reads {', '.join(unknown)}: topics: {', '.join(sorted(read))}")
    narrow = [replace(group, topics=tuple(t for t in group.topics if t in topics)) for group in groups]
    return [group for group in narrow if group.topics]


# -- output -------------------------------------------------------------------------------------------------------


def _print(descriptions: Sequence[Description], columns: Sequence[str]) -> None:
    """Prints a table for each group on a terminal, else one line for each partition."""
    for description in descriptions:
        if sys.stdout.isatty():
            _table(description, columns)
        else:
            for at in description.offsets:
                words = [f"{name}={_word(getattr(at, name), 'none')}" for name in ("topic", "partition", *columns)]
                print(f"group={description.group.name}", *words)
        for topic in description.missing:
            print(f"tidegate: group {description.group.name}: topic {topic} does not exist yet", file=sys.stderr)


def _table(description: Description, columns: Sequence[str]) -> None:
    group = description.group
    whose = f" ({', '.join(group.owners)})" if group.owners else ""
    title = f"{group.name}{whose}: {_count(len(description.members), 'member')}, lag {description.lag:,}"
    names = ("topic", "partition", *columns)
    rows = [[_word(getattr(at, name), "none yet") for name in names] for at in description.offsets]
    tables.print_table(title, names, rows)


def _word(value: object, none: str) -> str:
    return none if value is None else str(value)


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _json(description: Description) -> dict[str, Any]:
    group = description.group
    return {
        "group": group.name,
        "bootstrap": group.options.bootstrap,
        "owners": group.owners,
        "members": description.members,
        "lag": description.lag,
        "missing": description.missing,
        "partitions": [_partition_json(at) for at in description.offsets],
    }


def _partition_json(at: PartitionOffsets) -> dict[str, Any]:
    names = ("topic", "partition", "first", "end", "committed", "lag", *(("to",) if at.to is not None else ()))
    return {name: getattr(at, name) for name in names}
