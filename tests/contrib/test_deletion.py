"""Every plugin can be deleted: what does not declare that it needs it works as before.

A plugin is deleted with all that import it. The folder of a test stands first on the
path: its distribution `tidegate` has the entry points that are left, and its packages stand for what is gone.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from gateway_core.config.registry import Registry
from gateway_core.contract.hookspecs import GROUP
from tests.tree import PLUGINS, SHIPPED, entry_points

from .test_core_imports import needs

POINTS = entry_points()
SHORT = {"access", "inspect", "log", "reload"}
"""Of the whole matrix, what `make test` has: many plugins need the first; few configs name the others."""


def gone_with(plugin: str) -> set[str]:
    """The packages that are deleted with a plugin: its own, and those that need it."""
    gone = {f"gateway_{plugin}"}
    while more := {name for name, others in needs().items() if others & gone} - gone:
        gone |= more
    return gone


def installed(folder: Path, gone: set[str]) -> dict[str, str]:
    """Makes the installation. Returns its entry points."""
    left = {name: value for name, value in POINTS.items() if value.partition(".")[0] not in gone}
    for name, points in {"tidegate": {**left, "probe": "probe"}, "tidegate-dev": {}}.items():
        info = folder / f"{name.replace('-', '_')}-{version('tidegate')}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version('tidegate')}\n")
        (info / "entry_points.txt").write_text(f"[{GROUP}]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()))
    for package in gone:
        (folder / package).mkdir()
        (folder / package / "__init__.py").write_text(f"raise ModuleNotFoundError('it is deleted', name={package!r})\n")
    shutil.copy(Path(__file__).with_name("without.py"), folder / "probe.py")
    return left


def config(left: dict[str, str]) -> dict[str, Any]:
    """A config with what is left: without a log, a bridge carries the event."""
    if "log" not in left:
        return {"bridges": {"default": {"source": "probe", "sink": "probe"}}}
    filters = {"filters": [{"exact": {"type": "t"}}]} if "basics" in left else {}
    ingress: list[Any] = ["probe", *([{"http": {"listen": "127.0.0.1:0"}}] if "http" in left else [])]
    broker = {"ingress": ingress, "channel": "log", "dead_letter": "probe"}
    return {"brokers": {"default": broker}, "triggers": {"t": {"broker": "default", "subscriber": "probe", **filters}}}


def matrix() -> list[Any]:
    return [pytest.param(name, marks=() if name in SHORT else pytest.mark.full) for name in sorted(POINTS)]


@pytest.mark.spec("CARD-05")
@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("plugin", matrix())
def test_what_does_not_need_a_plugin_works_without_it(plugin: str, tmp_path: Path) -> None:
    left = installed(tmp_path, gone_with(plugin))
    wanted = config(left)
    (tmp_path / "tidegate.yaml").write_text(json.dumps(wanted))
    offered = Registry.installed().commands
    checks, sends = (name in offered and offered[name][1] in (*left, "") for name in ("check", "send"))
    sends = sends and "http" in left and "brokers" in wanted
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "TIDEGATE_ADMIN": "socket", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "probe.py", json.dumps([checks, sends])]
    ran = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=150)
    assert ran.returncode == 0, ran.stderr
    report = json.loads(ran.stdout.splitlines()[-1])
    codes = {name: report[name]["code"] for name in ("check", "run", "send") if name in report}
    assert (codes, report.get("fault")) == (dict.fromkeys(codes, 0), None), report
    assert report["came"] == (["1", "2"] if sends else ["1"])
    assert codes.keys() == {"run", *(["check"] if checks else []), *(["send"] if sends else [])}


@pytest.mark.slow
def test_what_needs_a_plugin_goes_with_it() -> None:
    assert gone_with("console") == {"gateway_console"}
    assert {"gateway_console", "gateway_plugins"} <= gone_with("inspect")
    assert "gateway_http" in gone_with("access")


_CONFIG = "{brokers: {default: {}}, triggers: {t: {subscriber: 'http://127.0.0.1:1/', filters: [exact: {type: x}]}}}"
_EVENT = '{"specversion": "1.0", "id": "1", "source": "/s", "type": "x"}'


@pytest.mark.spec("CARD-05")
@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("command", "says"), [(["graph"], "flowchart LR"), (["explain", "event.json"], "http://127.0.0.1:1/")]
)
def test_a_config_is_shown_without_the_development_tools(command: list[str], says: str, tmp_path: Path) -> None:
    """Production images have only the wheel `tidegate`."""
    installed(tmp_path, PLUGINS.keys() - SHIPPED.keys())
    (tmp_path / "tidegate.yaml").write_text(_CONFIG)
    (tmp_path / "event.json").write_text(_EVENT)
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    line = [sys.executable, "-m", "gateway_core.cli", *command, "tidegate.yaml"]
    ran = subprocess.run(line, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=150)
    assert ran.returncode == 0, ran.stderr
    assert says in ran.stdout
