"""`tidegate check`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..config.faults import render, to_json
from ..config.load import Loaded, load_all
from ..errors import ConfigError, Fault
from ..registry import Registry
from . import FAULT, OK, common, tables


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
    probes: list[dict[str, Any]] = []
    if connect and loaded is not None:
        from .connect import probe_all

        probes = probe_all(loaded.config, settings)
    warnings = loaded.warnings if loaded else []
    good = not faults and all(p["ok"] for p in probes)
    if as_json:
        common.print_json({**to_json(faults, warnings), "ok": good, **({"probes": probes} if connect else {})})
    else:
        print(render(faults, common.colours(sys.stdout), warnings), end="")
        if probes:
            words = [("ok" if p["ok"] else "FAILED", p["path"], p["end"], p["reason"]) for p in probes]
            tables.print_table("Ends", ("result", "path", "end", "reason"), words)
    return OK if good else FAULT
