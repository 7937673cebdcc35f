"""`tidegate orphans`, and what `tidegate check` says about names that an edit leaves behind."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import typer

from ..config.load import Loading
from ..config.registry import Registry
from ..config.sources import gather
from ..contract.cli import common
from ..contract.cli.common import aligned
from ..contract.cli.exit_codes import FAULT, OK
from ..contract.config_model import GatewayConfig
from ..contract.durable import Contents, DurableName, DurableNames, Noted
from ..contract.errors import ConfigError, Fault, StartError
from ..contract.one_line import one_line
from ..contract.settings import Settings
from ..runtime.durable_names import ConfigNames, orphaning


def with_applied(paths: Sequence[Path], registry: Registry, settings: Settings) -> tuple[list[Fault], Sequence[Fault]]:
    """What is to be said of the config together with what was applied to the gateway of this data directory: its
    faults; and warnings, of the names of the config that ran last which this one would leave behind."""
    try:
        loading = _loading(paths, registry, settings)
        config = loading.run().config
    except ConfigError as e:
        return e.faults, ()
    except StartError as e:
        return [Fault(str(e))], ()
    return [], [*_left_behind(loading, config, registry, settings)]


def _left_behind(loading: Loading, config: GatewayConfig, registry: Registry, settings: Settings) -> Iterator[Fault]:
    for finding in orphaning(ConfigNames(config, registry, settings.data_dir.absolute()), config):
        yield Fault(finding.message, *loading.written(finding.place), finding.remedy)


def _loading(paths: Sequence[Path], registry: Registry, settings: Settings) -> Loading:
    """The config as a gateway reads it, with what was applied."""
    files = [*paths, *registry.config_files(settings)]
    return Loading(gather(files, registry, os.environ), registry, os.environ)


def orphans(
    paths: Sequence[Path] | None,
    remove: Collection[str],
    *,
    everything: bool,
    yes: bool,
    drop: int,
    data_dir: Path | None,
    as_json: bool,
) -> int:
    """Lists or removes them, each with at most `drop` events that wait there, or as many as someone at a terminal
    agrees to; returns the exit code."""
    settings, registry = common.settings(data_dir=data_dir), Registry.installed()
    config = _loading(common.config_paths(paths), registry, settings).run().config
    names = ConfigNames(config, registry, settings.data_dir.absolute())
    found = names.left()
    offers = names.offers
    look = _Look(offers, config, settings.data_dir.absolute())
    if not remove and not everything:
        _show(found, names, look, as_json=as_json)
        return OK
    chosen = [noted for noted in found if everything or noted.name.name in remove]
    if unknown := sorted(set(remove) - {noted.name.name for noted in found}):
        raise common.CommandError(f"no orphan has this name: {', '.join(unknown)}")
    going, results = list[Noted](), list[tuple[Noted, str]]()
    for noted in chosen:
        offered = offers.get(noted.name.transport)
        if noted.used:
            results.append((noted, "the config that ran last has it: run or reload this config first"))
        elif noted.name.name not in remove and offered is not None and offered.only_by_name:
            rescue = names.rescue(noted.name)
            results.append((noted, f"{rescue}; --remove {noted.name.name} removes them"))
        else:
            going.append(noted)
    agreed = False
    if going and not yes:
        agreed = _confirmed(going, look)
        if not agreed:
            raise common.CommandError("nothing was removed: it needs --yes, or your consent on a terminal")
    for noted in going:
        offered = offers.get(noted.name.transport)
        reason = look.held(noted.name, None if agreed else drop)
        if reason:
            pass
        elif offered is None or offered.remove is None:
            reason = offered.remedy if offered is not None else "the plugin that knows it is not installed"
        else:
            try:
                offered.remove(noted.name, config, settings.data_dir.absolute())
            except OSError as e:
                reason = one_line(e)
            else:
                names.forget(noted.name)
        results.append((noted, reason))
    if as_json:
        common.print_json({"removed": [{**_entry(noted), "ok": not why, "reason": why} for noted, why in results]})
    else:
        for noted, why in results:
            print(f"{'NOT removed' if why else 'removed'}: {noted.name}" + (f": {why}" if why else ""))
    return FAULT if any(why for _, why in results) else OK


class _Look:
    """What the names have now, as far as their servers tell."""

    def __init__(self, offers: Mapping[str, DurableNames], config: GatewayConfig, data_dir: Path) -> None:
        self._offers = offers
        self._config = config
        self._data_dir = data_dir

    def at(self, name: DurableName) -> Contents:
        """Raises `OSError`."""
        offered = self._offers.get(name.transport)
        return offered.look(name, self._config, self._data_dir) if offered and offered.look else Contents()

    def words(self, name: DurableName) -> tuple[str, str]:
        """How many events wait, and who reads; "?" if that is not known."""
        try:
            found = self.at(name)
        except OSError as e:
            return "?", f"not known: {one_line(e)}"
        return "?" if found.waiting is None else str(found.waiting), found.users or "-"

    def all_words(self, found: Sequence[Noted]) -> list[tuple[str, str]]:
        """The same of all that were left behind; servers are asked at the same time, since some may not answer."""
        with ThreadPoolExecutor(8) as threads:
            return [*threads.map(lambda noted: ("-", "-") if noted.used else self.words(noted.name), found)]

    def held(self, name: DurableName, drop: int | None) -> str:
        """Why it is not removed: someone reads from it, or more events than `drop` wait there (None: any number may);
        "" if it may be removed."""
        try:
            found = self.at(name)
        except OSError as e:
            return one_line(e)
        if found.users:
            return f"it is in use ({found.users}): by another gateway that has this name, or by an earlier config"
        if drop is None or not found.waiting or found.waiting <= drop:
            return ""
        events = _events(found.waiting)
        return f"{events} for whoever has this name, another gateway too: `--drop {found.waiting}` removes it with them"


def _events(waiting: int) -> str:
    return "1 event waits there" if waiting == 1 else f"{waiting} events wait there"


def _confirmed(going: Sequence[Noted], look: _Look) -> bool:
    if not sys.stdin.isatty():
        return False
    for noted in going:
        waiting, _ = look.words(noted.name)
        typer.echo(f"{noted.name}, of {noted.name.owner}; events that wait there: {waiting}", err=True)
    return typer.confirm("Remove these, with all that waits in them?", err=True)


def _show(found: Sequence[Noted], names: ConfigNames, look: _Look, *, as_json: bool) -> None:
    known = look.all_words(found)
    rescues = [names.rescue(noted.name) for noted in found]
    if as_json:
        entries = [
            {
                **_entry(noted),
                "waiting": int(waiting) if waiting.isdigit() else None,
                "used_by": users,
                "rescue": rescue,
            }
            for noted, (waiting, users), rescue in zip(found, known, rescues, strict=True)
        ]
        common.print_json({"orphans": entries})
        return
    if not found:
        print("no orphans")
        return
    rows = [
        (n.name.what, n.name.name, n.name.where, n.name.owner, *facts, _state(n))
        for n, facts in zip(found, known, strict=True)
    ]
    print("\n".join(aligned([("WHAT", "NAME", "WHERE", "OF", "WAITING", "USED BY", "STATE"), *rows])))
    if any(waiting.isdigit() or users != "-" for waiting, users in known):
        print(
            "\nA name at a server may be another gateway's too, also of one that is stopped: look at all their configs."
        )
    for noted, rescue in zip(found, rescues, strict=True):
        if rescue:
            print(f"{noted.name.name}: {rescue}")


def _entry(noted: Noted) -> dict[str, Any]:
    name = noted.name
    words = {"transport": name.transport, "what": name.what, "name": name.name, "where": name.where}
    return {**words, "of": name.owner, "state": _state(noted), "keeps": name.keeps}


def _state(noted: Noted) -> str:
    return "in use by the config that ran last" if noted.used else "left behind"
