"""`tidegate orphans`, and what `tidegate check` says about names that an edit leaves behind."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import typer
from gateway_terminal.tables import aligned

from gateway_core.cli import common
from gateway_core.cli.exit_codes import FAULT, OK
from gateway_core.config.load import Loading
from gateway_core.config.model import GatewayConfig
from gateway_core.config.registry import Registry
from gateway_core.config.sources import gather
from gateway_core.contract.durable import Noted
from gateway_core.contract.errors import ConfigError, Fault, StartError
from gateway_core.contract.one_line import one_line
from gateway_core.runtime.durable_names import ConfigNames, orphaning
from gateway_core.runtime.settings import Settings


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
        _show(found, as_json=as_json)
        return OK
    chosen = [noted for noted in found if everything or noted.name.name in remove]
    if unknown := sorted(set(remove) - {noted.name.name for noted in found}):
        raise common.CommandError(f"no orphan has this name: {', '.join(unknown)}")
    going = [noted for noted in chosen if not noted.used]
    results: list[tuple[Noted, str]] = [
        (noted, "the config that ran last has it: run or reload this config first") for noted in chosen if noted.used
    ]
    if going and not yes and not _confirmed(going):
        raise common.CommandError("nothing was removed: it needs --yes, or your consent on a terminal")
    offers = {offered.transport: offered for offered in registry.durable_names}
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


def _show(found: Sequence[Noted], *, as_json: bool) -> None:
    if as_json:
        common.print_json({"orphans": [_entry(noted) for noted in found]})
        return
    if not found:
        print("no orphans")
        return
    rows = [(n.name.what, n.name.name, n.name.where, n.name.owner, _state(n)) for n in found]
    print("\n".join(aligned([("WHAT", "NAME", "WHERE", "OF", "STATE"), *rows])))


def _entry(noted: Noted) -> dict[str, Any]:
    name = noted.name
    words = {"transport": name.transport, "what": name.what, "name": name.name, "where": name.where}
    return {**words, "of": name.owner, "state": _state(noted), "keeps": name.keeps}


def _state(noted: Noted) -> str:
    return "in use by the config that ran last" if noted.used else "left behind"
