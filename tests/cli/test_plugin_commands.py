"""Commands of plugins: how they are found, listed and run."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest

from gateway_core.cli.lazy import PANELS, loaded
from tests.installed import REGISTRY
from tests.planted import install, leave_out

COMMANDS = {
    name: command
    for name, (command, plugin) in REGISTRY.commands.items()
    if plugin in ("admin", "inspect", "scenario", "http")
}

SHIPPED = {p.name for p in distribution("tidegate").entry_points.select(group="tidegate")}

GREETER = """
import typer
from gateway_core.contract.component import Command
from gateway_core.contract.errors import Fault, Probe
from gateway_core.contract.hookspecs import hookimpl

def greet(name: str) -> None:
    "Greet somebody."
    if name == "nobody":
        raise LookupError("nobody is here")
    typer.echo(f"hello {name}")
    raise typer.Exit(1)

@hookimpl
def gateway_commands():
    return [Command("greet", "Greet somebody.", lambda: greet), Command("wave", "Wave.", lambda: greet, panel="Run")]

@hookimpl
def gateway_settings_checks():
    return [lambda settings: [Fault(f"{settings.workers} workers are too few", "TIDEGATE_WORKERS", remedy="hire")]]

@hookimpl
def gateway_connection_checks():
    return [lambda config, settings: [Probe(f"brokers.{b}", "the moon", False, "too far") for b in config.brokers]]
"""


def run(env: dict[str, str], folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gateway_core.cli", *words]
    env = {**os.environ, "COLUMNS": "120", **env}
    return subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def panels(text: str) -> dict[str, list[str]]:
    """The commands in each panel of a help."""
    found: dict[str, list[str]] = {}
    title = ""
    for line in text.splitlines():
        if line.startswith("╭─"):
            found[title := line.strip("╭─╮ ")] = []
        elif line.startswith("│ ") and line[2] != " ":
            found[title].append(line.split()[1])
    return found


def test_help_groups_commands_by_purpose(tidegate: Any) -> None:
    found = panels(tidegate("--help").out)
    del found["Options"]
    assert tuple(found)[: len(PANELS)] == PANELS
    assert found["Run"] == ["run", "check", "test"]
    assert found["Look inside"] == [
        "status",
        "get",
        "audit",
        "console",
        "explain",
        "why",
        "delayed",
        "tap",
        "top",
        "graph",
    ]
    assert found["Change"] == ["apply", "delete", "pause", "resume", "reload", "login", "logout", "admin"]
    assert {"dlq", "log", "backup", "restore", "offsets", "spark"} <= set(found["Look after data"])
    assert {"send", "demo", "dev", "conformance"} <= set(found["Try out"])
    assert found["This installation"] == ["version", "completion", "plugins", "schema"]


@pytest.mark.usefixtures("processes")
def test_anyones_command_is_listed_and_runs(tmp_path: Path) -> None:
    env = install(tmp_path, GREETER)
    found = panels(run(env, tmp_path, "--help").stdout)
    assert "wave" in found["Run"]
    assert found["Commands of plugins"] == ["greet"]
    assert list(found)[-1] == "Commands of plugins"
    ran = run(env, tmp_path, "greet", "you")
    assert (ran.returncode, ran.stdout) == (1, "hello you\n")
    assert "Greet somebody." in run(env, tmp_path, "greet", "--help").stdout
    crashed = run(env, tmp_path, "greet", "nobody")
    assert crashed.returncode == 70
    assert "internal error: LookupError: nobody is here" in crashed.stderr
    assert "this is a bug in the plugin " in crashed.stderr
    assert ", not in tidegate;" in crashed.stderr


@pytest.mark.usefixtures("processes")
def test_a_plugins_check_of_settings_is_a_fault(tmp_path: Path) -> None:
    env = install(tmp_path, GREETER)
    (tmp_path / "tidegate.yaml").write_text("brokers: {}\n")
    ran = run({**env, "TIDEGATE_WORKERS": "3"}, tmp_path, "check")
    assert ran.returncode == 1
    assert "TIDEGATE_WORKERS" in ran.stdout
    assert "3 workers are too few" in ran.stdout


@pytest.mark.usefixtures("processes")
def test_a_plugin_tries_ends_too(tmp_path: Path) -> None:
    env = install(tmp_path, GREETER)
    (tmp_path / "tidegate.yaml").write_text("brokers: {b: {}}\n")
    ran = run({**env, "TIDEGATE_ADMIN": "off"}, tmp_path, "check", "--connect")
    assert ran.returncode == 1
    assert "FAILED  brokers.b  the moon" in ran.stdout
    assert "too far" not in run({**env, "TIDEGATE_ADMIN": "off"}, tmp_path, "check").stdout


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("source", ["raise LookupError('oh')", "import no_such_module"])
def test_a_broken_plugin_stops_no_shipped_command(tmp_path: Path, source: str) -> None:
    env = install(tmp_path, source)
    for words in (["status", "--help"], ["dlq", "list", "--help"], ["version"]):
        ran = run(env, tmp_path, *words)
        assert (ran.returncode, ran.stderr) == (0, "")
    listed = run(env, tmp_path, "--help")
    assert listed.returncode == 0
    assert "plugin 'planted' (planted) can't be imported" in listed.stderr
    assert "status" in panels(listed.stdout)["Look inside"]
    # it may be the one that has the command
    unknown = run(env, tmp_path, "nonsense")
    assert (unknown.returncode, "plugin 'planted' (planted) can't be imported" in unknown.stderr) == (3, True)


def test_a_misspelt_command_of_a_plugin_is_suggested(tidegate: Any) -> None:
    ran = tidegate("statsu")
    assert ran.code == 2
    assert "Did you mean 'status'" in ran.err


@pytest.mark.parametrize("name", COMMANDS)
def test_a_summary_is_how_the_commands_own_help_begins(name: str) -> None:
    first = inspect.cleandoc(loaded(COMMANDS[name]).help).split("\n\n")[0]
    assert " ".join(first.split()) == COMMANDS[name].summary


@pytest.mark.usefixtures("processes")
def test_a_command_is_found_without_libraries() -> None:
    """Every start would wait for them."""
    program = """
import sys
from gateway_core.config.installed import commands
assert {"status", "send", "test", "dlq", "spark"} <= {command.name for command, _ in commands()}
print(*{name.partition(".")[0] for name in sys.modules})
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    slow = {"pydantic", "msgspec", "httpx", "anyio", "asyncio", "rich", "ruamel", "pyspark", "aiokafka"}
    assert slow & set(ran.stdout.split()) == set()


NEEDED = {"basics", "cloudevents", "deadletter", "file", "http", "log", "access", "audit"}
"""The plugins of a gateway that takes events by HTTP and writes them to a file, and those which they import."""


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    "gone",
    [
        pytest.param({"inspect"}, id="inspect", marks=pytest.mark.full),
        pytest.param(SHIPPED - NEEDED, id="all-that-it-can"),
    ],
)
def test_the_commands_of_every_gateway_need_no_plugin(tmp_path: Path, gone: set[str]) -> None:
    env = leave_out(tmp_path, *gone)
    (tmp_path / "good.yaml").write_text(
        "brokers: {default: {ingress: [{http: {listen: '127.0.0.1:0'}}]}}\n"
        "triggers: {t: {subscriber: {file: {path: out.ndjson}}}}\n"
    )
    (tmp_path / "bad.yaml").write_text("brokers: {default: {ingres: []}}\n")
    good = run(env, tmp_path, "check", "good.yaml", "--secrets")
    assert (good.returncode, "no faults" in good.stdout) == (0, True), good.stderr
    bad = run(env, tmp_path, "check", "bad.yaml")
    assert (bad.returncode, "unknown key `ingres`" in bad.stdout) == (1, True)
    assert run(env, tmp_path, "orphans", "good.yaml").stdout == "no orphans\n"
    assert run(env, tmp_path, "version").stdout.startswith("tidegate ")
    assert "complete" in run(env, tmp_path, "completion", "bash").stdout
    assert run(env, tmp_path, "explain", "-", "good.yaml").returncode == 2
