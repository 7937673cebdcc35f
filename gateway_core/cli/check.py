"""`tidegate check`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..config.faults import render, to_json
from ..config.load import Loaded, load_all
from ..config.registry import Registry
from ..contract.errors import ConfigError, Fault
from . import common, tables
from .exit_codes import FAULT, OK


def check_config(paths: Sequence[Path] | None, *, connect: bool, data_dir: Path | None, as_json: bool) -> int:
    """Reports all faults; with `connect` also what the real ends say. Returns the exit code."""
    settings = common.settings(data_dir=data_dir)
    faults: list[Fault] = []
    loaded: Loaded | None = None
    registry = Registry.installed()
    try:
        loaded = load_all(common.config_paths(paths), registry)
    except ConfigError as e:
        faults = e.faults
    faults = [*faults, *(fault for check in registry.settings_checks for fault in check(settings))]
    probes: list[dict[str, Any]] = []
    if connect and loaded is not None:
        from .connect import probe_all

        probes = probe_all(loaded.config, settings)
    warnings = loaded.warnings if loaded else []
    good = not faults and all(p["ok"] for p in probes)
    if as_json:
        common.print_json({**to_json(faults, warnings), "ok": good, **({"probes": probes} if connect else {})})
    else:
        if probes:
            words = [("ok" if p["ok"] else "FAILED", p["path"], p["end"], p["reason"]) for p in probes]
            tables.print_table("Ends", ("result", "path", "end", "reason"), words)
            print()
        failed = sum(not p["ok"] for p in probes)
        tail = f"{failed} of {len(probes)} ends FAILED" if failed else f"all {len(probes)} ends ok" if probes else ""
        print(render(faults, common.colours(sys.stdout), warnings, tail), end="")
    return OK if good else FAULT
