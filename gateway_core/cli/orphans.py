"""`tidegate orphans`, and what `tidegate check` says about names that an edit leaves behind."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Sequence
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
from ..contract.durable import Noted
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
    data_dir: Path | None,
    as_json: bool,
) -> int:
    """Lists or removes them; returns the exit code."""
    settings, registry = common.settings(data_dir=data_dir), Registry.installed()
    config = _loading(common.config_paths(paths), registry, settings).run().config
    names = ConfigNames(config, registry, settings.data_dir.absolute())
    found = names.left()
    if not remove and not everything:
        _show(found, names, as_json=as_json)
        return OK
    offers = names.offers
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
    if going and not yes and not _confirmed(going):
        raise common.CommandError("nothing was removed: it needs --yes, or your consent on a terminal")
    for noted in going:
        reason = ""
        offered = offers.get(noted.name.transport)
        if offered is None or offered.remove is None:
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


def _confirmed(going: Sequence[Noted]) -> bool:
    if not sys.stdin.isatty():
        return False
    for noted in going:
        typer.echo(f"{noted.name}, of {noted.name.owner}", err=True)
    return typer.confirm("Remove these, with all that waits in them?", err=True)


def _show(found: Sequence[Noted], names: ConfigNames, *, as_json: bool) -> None:
    if as_json:
        rescues = [names.rescue(noted.name) for noted in found]
        common.print_json({"orphans": [{**_entry(n), "rescue": r} for n, r in zip(found, rescues, strict=True)]})
        return
    if not found:
        print("no orphans")
        return
    rows = [(n.name.what, n.name.name, n.name.where, n.name.owner, _state(n)) for n in found]
    print("\n".join(aligned([("WHAT", "NAME", "WHERE", "OF", "STATE"), *rows])))
    for noted in found:
        if rescue := names.rescue(noted.name):
            print(f"{noted.name.name}: {rescue}")


def _entry(noted: Noted) -> dict[str, Any]:
    name = noted.name
    words = {"transport": name.transport, "what": name.what, "name": name.name, "where": name.where}
    return {**words, "of": name.owner, "state": _state(noted), "keeps": name.keeps}


def _state(noted: Noted) -> str:
    return "in use by the config that ran last" if noted.used else "left behind"
