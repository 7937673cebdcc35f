"""`tidegate check`."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from ..config.load import Loading
from ..config.registry import Registry
from ..config.sources import gather
from ..contract.capabilities import Foretelling, offers
from ..contract.cli import common
from ..contract.cli.common import aligned
from ..contract.cli.exit_codes import FAULT, OK
from ..contract.config_model import GatewayConfig
from ..contract.config_node import Place
from ..contract.config_walk import component_refs
from ..contract.errors import ConfigError, Fault, Probe, StartError
from ..contract.faults import render, to_json
from ..contract.loaded import Loaded
from ..contract.needed_files import faulty_files
from ..contract.settings import Settings
from ..runtime import start_conditions
from . import secrets_list
from .orphans import with_applied

_ConnectionCheck = Callable[[GatewayConfig, Settings], Iterable[Probe]]


def check_config(
    paths: Sequence[Path] | None, *, connect: bool, secrets: bool, data_dir: Path | None, as_json: bool
) -> int:
    """Reports all faults; with `connect` also what trying the ends shows, with `secrets` all secrets. Returns the exit
    code."""
    settings = common.settings(data_dir=data_dir)
    faults: list[Fault] = []
    loaded: Loaded | None = None
    loading: Loading | None = None
    registry = Registry.installed()
    try:
        loading = Loading(gather(common.config_paths(paths), registry, os.environ), registry, os.environ)
        loaded = loading.run()
        faults = [Fault(f.message, *loading.written(f.place), f.remedy) for f in faulty_files(loaded.config)]
    except ConfigError as e:
        faults = e.faults
    faults = [*faults, *start_conditions.of_settings(settings, registry)]
    if loaded is not None and loading is not None and not faults:
        faults = _of_components(loaded, settings, loading, registry)
    warnings = loaded.warnings if loaded else []
    if loaded is not None:
        of_applied, left_behind = with_applied(common.config_paths(paths), registry, settings)
        faults = faults or of_applied
        warnings = [*warnings, *left_behind]
    probes: list[Probe] = []
    if connect and loaded is not None:
        probes = [probe for asked in registry.connection_checks for probe in _probed(*asked, loaded.config, settings)]
    failed = sum(not probe.ok for probe in probes)
    rows = secrets_list.secret_rows(loading) if secrets and loading is not None else []
    outlook = _outlook(loaded.config) if loaded is not None else []
    good = not faults and not failed and not any(row.missing for row in rows)
    if as_json:
        ends = {"probes": [asdict(probe) for probe in probes]} if connect else {}
        listed = {"secrets": secrets_list.as_json(rows)} if secrets else {}
        common.print_json({**to_json(faults, warnings), "ok": good, "outlook": outlook, **ends, **listed})
    else:
        if secrets:
            print(secrets_list.as_text(rows), end="\n\n")
        if outlook:
            print("\n".join(outlook), end="\n\n")
        if probes:
            tried = [("ok" if p.ok else "FAILED", p.path, p.end, p.reason) for p in probes]
            print("\n".join(aligned([("RESULT", "PATH", "END", "REASON"), *tried])), end="\n\n")
        tail = f"{failed} of {len(probes)} ends FAILED" if failed else f"all {len(probes)} ends ok" if probes else ""
        print(render(faults, common.colours(sys.stdout), warnings, tail), end="")
    return OK if good else FAULT


def _outlook(config: GatewayConfig) -> list[str]:
    """What components will do."""
    refs = component_refs(config)
    return [line for _, ref in refs if offers(ref.options, Foretelling) for line in ref.options.outlook(time.time())]


def _probed(check: _ConnectionCheck, plugin: str, config: GatewayConfig, settings: Settings) -> Iterable[Probe]:
    """What a plugin found out. If its check fails, that is what it found: the others are asked all the same."""
    try:
        return list(check(config, settings))
    except Exception as e:
        return [Probe(f"plugin {plugin}", "its check", False, f"{type(e).__name__}: {e}")]


def _of_components(loaded: Loaded, settings: Settings, loading: Loading, registry: Registry) -> list[Fault]:
    """Why the components can't be built, with the lines."""
    try:
        faults = start_conditions.of_components(loaded.config, settings, registry)
    except StartError as e:
        faults = [Fault(str(e))]
    return [replace(f, file=at[1], line=at[2]) for f in faults for at in [loading.written(_place(f.path))]]


def _place(path: str) -> Place:
    """The place of a dotted path, as far as it can be told from the text: names may have dots, too."""
    return tuple(int(step[1:-1]) if step[0] == "[" else step for step in re.findall(r"\[\d+\]|[^.\[\]]+", path))
