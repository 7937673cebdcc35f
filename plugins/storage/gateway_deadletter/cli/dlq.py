"""`tidegate dlq list` and `show`: through the running gateway, else from its files."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from gateway_api.client.remote import remote
from gateway_api.client.running import is_running
from gateway_terminal import tables

from gateway_core.contract.cli import common
from gateway_core.contract.cli.exit_codes import FAULT, OK
from gateway_core.contract.clock import SystemClock
from gateway_core.contract.configs import installed, load
from gateway_core.contract.one_line import one_line

from ..dead_letters import Query, Stores, detail, given_up_counts, row
from ..encryption import parse_key

COLUMNS = ("id", "trigger", "type", "event_id", "attempts", "code", "reason", "last")
_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Where:
    """Where to look for dead letters: in the stores of the given config files, else through the gateway that is given
    or running with the data directory, else in the stores of the default config."""

    config: Sequence[Path] | None = None
    data_dir: Path | None = None
    admin: str | None = None
    key_files: Sequence[Path] = ()

    @property
    def asks(self) -> bool:
        """Whether to ask a gateway. Raises `CommandError` if keys are given, too: it has its own."""
        if self.admin is not None and self.key_files:
            raise common.CommandError("--key-file reads the files itself: leave out --admin")
        return self.admin is not None or (
            not self.config and not self.key_files and is_running(common.settings(data_dir=self.data_dir))
        )

    def stores(self) -> Stores:
        """The stores of the config, and of the triggers that were applied to its gateway."""
        registry = installed()
        settings = common.settings(data_dir=self.data_dir)
        loaded = load([*common.config_paths(self.config), *registry.config_files(settings)], registry)
        return Stores(loaded, settings.data_dir, registry, [key for file in self.key_files for key in _keys(file)])


def _keys(file: Path) -> list[bytes]:
    """The keys in a file. Raises `CommandError`."""
    try:
        keys = [parse_key(line) for line in file.read_text().splitlines() if line.strip()]
    except OSError as e:
        raise common.CommandError(f"{file} can't be read: {e.strerror}") from e
    except ValueError:
        raise common.CommandError(f"{file}: a key is 32 bytes, in base64 or hexadecimal") from None
    if not keys:
        raise common.CommandError(f"{file} has no key")
    return keys


@dataclass(slots=True)
class _Found:
    rows: list[dict[str, Any]] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    elsewhere: list[dict[str, Any]] = field(default_factory=list)
    left_behind: list[dict[str, Any]] = field(default_factory=list)

    def not_listed(self) -> Iterator[str]:
        """What was given up and can't be listed."""
        for left in self.left_behind:
            letters = "1 dead letter" if left["count"] == 1 else f"{left['count']:,} dead letters"
            yield (
                f"{letters} in {one_line(left['file'])}, which belongs to nothing in this config:"
                f" {one_line(left['command'], 2000)} takes them over"
            )
        for gone in self.elsewhere:
            count, trigger, to = gone["count"], one_line(gone["trigger"]), one_line(gone["to"])
            events = "1 event" if count == 1 else f"{count:,} events"
            were = "was" if count == 1 else "were"
            yield (
                f"{events} of {trigger} {were} given up and sent to {to}, the last at {gone['last']}:"
                f" {one_line(gone['reason'])}"
            )


def list_dead_letters(where: Where, query: Query, *, as_json: bool) -> int:
    """Lists all dead letters that match, one per row. Returns the exit code: a fault if there are none to list, but
    events that were given up."""
    found = asked(where, query) if where.asks else _read(where.stores(), query)
    hidden = bool(found.elsewhere or found.left_behind)
    code = FAULT if hidden and not found.rows else OK
    if as_json:
        common.print_json(found.rows)
        for text in found.not_listed():
            print(f"not listed: {text}", file=sys.stderr)
        return code
    if found.rows:
        columns = COLUMNS if not any(row.get("redelivered") for row in found.rows) else (*COLUMNS, "redelivered")
        shown = [[one_line(_cell(row, name), 60) for name in columns] for row in found.rows]
        tables.print_table("Dead letters", columns, shown)
    else:
        print("no dead letters that can be read here" if hidden else "no dead letters")
        for missing in found.unknown:
            print(f"the config has no {missing}")
    for text in found.not_listed():
        print(text)
    for other in found.unreadable:
        print(f"not readable from here: {one_line(other, 2000)}")
    return code


def _cell(row: Mapping[str, Any], name: str) -> Any:
    if name == "redelivered":
        return redelivered_text(row.get(name))
    return row[name] or ""


def redelivered_text(since: Mapping[str, Any] | None) -> str:
    """How the trigger has got the event since; "" if it has not."""
    if not since:
        return ""
    by = since["by"]
    return str(since["at"]) + ("" if not by else " by a rewind" if by == "rewind" else f" by replay {by}")


def _read(stores: Stores, query: Query) -> _Found:
    rows = [row(dead_letter) for dead_letter in stores.dead_letters(query)]
    gone = given_up_counts(stores.channels(SystemClock()))
    left = stores.left_behind()
    elsewhere = [each for name, counts in gone for each in stores.elsewhere(name, counts, query, left=left)]
    told = [{"file": str(each.file), "count": each.count, "command": each.command} for each in left]
    return _Found(rows, list(stores.unknown(query)), stores.unreadable, elsewhere, told)


def asked(where: Where, query: Query) -> _Found:
    """What the gateway says; ids of the query do not count."""
    since = None if query.redelivered is None else str(query.redelivered).lower()
    chosen = {"broker": query.broker, "trigger": query.trigger, "reason": query.reason, "redelivered": since}
    given = {name: value for name, value in chosen.items() if value is not None}
    found = _Found()
    with remote(where.admin, where.data_dir) as gateway:
        for skip in count(0, _PAGE):
            page = gateway.ask("GET", "dead-letters", query={**given, "skip": str(skip), "limit": str(_PAGE)})
            found.rows += page["items"]
            found.unknown, found.unreadable = page["unknown"], page["unreadable"]
            found.elsewhere = page.get("elsewhere", [])  # an older gateway has none
            found.left_behind = page.get("left_behind", [])
            if not page["more"]:
                return found
    raise AssertionError


def show_dead_letter(where: Where, id_: str, *, as_json: bool) -> None:
    """Shows one dead letter: why it failed, the subscriber's response, and the original event."""
    if where.asks:
        with remote(where.admin, where.data_dir) as gateway:
            document = gateway.ask("GET", "dead-letters", id_)
    else:
        stores = where.stores()
        dead_letter = next(stores.dead_letters(Query(ids=frozenset((id_,)))), None)
        if dead_letter is None:
            raise common.CommandError(stores.absent(id_))
        document = detail(dead_letter)
    if as_json:
        common.print_json(document)
        return
    for name, value in document.items():
        if name != "event" and value not in (None, ""):
            shown = redelivered_text(value) if name == "redelivered" else value
            print(f"{name:>9}  {one_line(shown, 2000)}")
    print(json.dumps(document["event"], indent=2, ensure_ascii=False))
