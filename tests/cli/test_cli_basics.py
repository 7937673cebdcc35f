"""Names, help, exit codes, settings: what holds for all commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import jsonschema
import pytest
import typer
from pydantic import SecretStr

from gateway_core import __version__
from gateway_core.cli import PROGRAM
from gateway_core.cli.app import app
from gateway_core.cli.installation import build
from gateway_core.cli.lazy import PluginCommand
from gateway_core.config.registry import Registry
from gateway_core.contract.cli.exit_codes import FAULT
from gateway_core.contract.component import Command
from gateway_core.contract.errors import StartError
from gateway_core.contract.settings import Settings


def test_version(tidegate) -> None:
    assert tidegate("version").out == f"tidegate {__version__} ({build()})\n"
    assert tidegate("--version").out == f"tidegate {__version__}\n"
    said = json.loads(tidegate("version", "--json").out)
    assert (said["version"], said["build"]) == (__version__, build())


def test_help_lists_our_commands_and_those_of_plugins(tidegate) -> None:
    ran = tidegate("--help")
    offered = Registry.installed().commands
    assert ran.code == 0
    for name in ["run", "check", "send", "status", "plugins", "schema", "dlq", "version", "completion", *offered]:
        assert f" {name} " in ran.out


def test_a_plugins_command_is_loaded_when_it_is_invoked() -> None:
    plugin_app = typer.Typer()

    @plugin_app.command()
    def greet(name: str) -> None:
        raise LookupError(name)

    loads: list[int] = []
    command = PluginCommand(Command("greet", "Greets.", lambda: loads.append(1) or plugin_app), "polite")
    assert (command.name, command.help, loads) == ("greet", "Greets.", [])
    with command.make_context("greet", ["you"]) as context, pytest.raises(LookupError, match="you"):
        context.command.invoke(context)
    assert loads == [1]


def test_a_function_is_a_command_too() -> None:
    def greet(name: str) -> None:
        raise LookupError(name)

    command = PluginCommand(Command("greet", "Greets.", lambda: greet), "polite")
    with command.make_context("greet", ["you"]) as context, pytest.raises(LookupError, match="you"):
        context.command.invoke(context)


def test_a_plugins_command_that_cant_be_loaded_names_the_plugin() -> None:
    def load() -> None:
        raise ImportError("no module named x")

    with pytest.raises(StartError, match="command 'greet' of plugin 'polite' can't be loaded: no module named x"):
        PluginCommand(Command("greet", "Greets.", load), "polite").make_context("greet", [])


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [["fly"], ["run", "--fly"], ["dlq", "replay"], ["send", "nowhere", "--type", "t"]]
)
def test_wrong_usage_is_2(tidegate, arguments: list[str]) -> None:
    ran = tidegate(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert "Traceback" not in ran.err


def test_every_setting_but_secrets_is_a_flag_of_run() -> None:
    run = typer.main.get_command(app).commands["run"]
    flags = {option for parameter in run.params for option in parameter.opts}
    secret = {name for name, field in Settings.model_fields.items() if SecretStr in get_args(field.annotation)}
    assert {"--" + name.replace("_", "-") for name in Settings.model_fields if name not in secret} <= flags
    assert secret == {"admin_token"}
    assert "--admin-token" not in flags  # a list of processes would show it


def test_a_setting_that_is_wrong_names_its_place(tidegate, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = tidegate("run", "x.yaml", "--workers", "0")
    assert (ran.code, "--workers: expected a number of at least 1, found 0" in ran.err) == (2, True)
    monkeypatch.setenv("TIDEGATE_DRAIN_TIMEOUT_S", "soon")
    ran = tidegate("run", "x.yaml")
    assert (ran.code, "TIDEGATE_DRAIN_TIMEOUT_S: " in ran.err) == (2, True)


def test_without_a_config_it_says_how_to_name_one(tidegate) -> None:
    for command in ("run", "check"):
        ran = tidegate(command)
        assert (ran.code, "TIDEGATE_CONFIG" in ran.err) == (2, True)


@pytest.mark.slow
def test_the_config_is_found(tidegate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tidegate.yaml").write_text("brokers: 7\n")
    assert "tidegate.yaml:1" in tidegate("check").out
    (tmp_path / "other.yaml").write_text("brokers: {}\n")
    monkeypatch.setenv("TIDEGATE_CONFIG", "other.yaml")
    assert tidegate("check").code == 0


@pytest.mark.slow
def test_plugins_lists_components(tidegate) -> None:
    rows = json.loads(tidegate("plugins", "--json").out)
    found = {(row["kind"], row["name"]): row for row in rows}
    assert found["dead_letter", "deadletter"]["plugin"] == "deadletter"
    assert found["sink", "stdout"]["distribution"] == f"tidegate {__version__}"
    assert found["observer", "otel"]["extra"] == "otel"
    assert found["service", "reload"]["plugin"] == "reload"
    text = tidegate("plugins").out
    assert all(row["summary"] in text for row in rows)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(tidegate, shell: str) -> None:
    ran = tidegate("completion", shell)
    assert (ran.code, "_TIDEGATE_COMPLETE" in ran.out) == (0, True)


@pytest.mark.usefixtures("processes")
def test_the_script_is_answered() -> None:
    env = {**os.environ, "_TIDEGATE_COMPLETE": "complete_bash", "COMP_WORDS": "tidegate sta", "COMP_CWORD": "1"}
    command = [sys.executable, "-c", "from gateway_core.cli import main; main()"]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert ran.stdout.split() == ["status"]


def test_a_crash_of_ours_is_short_and_can_be_looked_into(tidegate, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("gateway_inspect.cli.plugins.list_plugins", broken)
    ran = tidegate("plugins")
    assert (ran.code, ran.out) == (70, "")
    assert f"{PROGRAM}: internal error: RuntimeError: boom" in ran.err
    assert "Traceback" not in ran.err
    assert "Traceback" in tidegate("--log-level", "debug", "plugins").err


def test_a_file_that_the_system_refuses_is_named(tidegate, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "/root/log")

    monkeypatch.setattr("gateway_inspect.cli.plugins.list_plugins", refused)
    ran = tidegate("plugins")
    assert (ran.code, ran.out, ran.err) == (1, "", f"{PROGRAM}: /root/log: Permission denied\n")


def test_an_error_that_task_groups_wrapped_is_explained_all_the_same(tidegate, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ExceptionGroup("outer", [ExceptionGroup("inner", [StartError("no port")])])

    monkeypatch.setattr("gateway_inspect.cli.plugins.list_plugins", broken)
    ran = tidegate("plugins")
    assert (ran.code, ran.err) == (3, "tidegate: no port\n")


@pytest.mark.parametrize("args", [["version", "--json"], ["schema"]], ids=["written at exit", "written at once"])
@pytest.mark.usefixtures("processes")
def test_a_reader_that_goes_away_is_no_crash(tmp_path: Path, args: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-c", "from gateway_core.cli import main; main()", *args]
    try:
        ran = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, env=env, cwd=tmp_path, check=False)
    finally:
        os.close(write)
    assert (ran.returncode, ran.stderr) == (FAULT, b"")


@pytest.mark.usefixtures("processes")
def test_ctrl_c_shows_no_traceback_even_while_modules_are_imported(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt")
    command = [sys.executable, "-m", "gateway_core.cli", "version"]
    ran = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert (ran.returncode, ran.stderr) == (130, "")


@pytest.mark.slow
def test_schema_is_one_that_editors_read(tidegate) -> None:
    schema = json.loads(tidegate("schema").out)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    assert validator.is_valid({"triggers": {"a": {"subscriber": "stdout"}}})
    assert not validator.is_valid({"trigger": {}})


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("pause ", ["archive", "large"]),
        ("pause l", ["large"]),
        ("delete trigger a", ["archive"]),
        ("get tr", ["triggers"]),
        ("get trigger l", ["large"]),
        ("explain e.json --trigger ", ["archive", "large"]),
        ("tap --broker d", ["default"]),
    ],
)
def test_the_shell_completes_names_of_the_config(tidegate, monkeypatch, line: str, offered: list[str]) -> None:
    config = "brokers: {default: {}}\ntriggers: {large: {subscriber: stdout}, archive: {subscriber: stdout}}\n"
    Path("tidegate.yaml").write_text(config)
    words = f"tidegate {line}"
    monkeypatch.setenv("_TIDEGATE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    assert tidegate().out.split() == offered


def test_where_nothing_is_known_nothing_is_completed(tidegate, monkeypatch) -> None:
    monkeypatch.setenv("_TIDEGATE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "tidegate pause ")
    monkeypatch.setenv("COMP_CWORD", "2")
    ran = tidegate()
    assert (ran.out.strip(), ran.err) == ("", "")


@pytest.mark.usefixtures("processes")
def test_what_the_encoding_of_the_output_lacks_is_written_in_another_way(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("triggers:\n  \u0442\u0438\u043f: {}\n")
    command = [sys.executable, "-m", "gateway_core.cli", "check", str(config)]
    env = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    ran = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert (ran.returncode, ran.stderr) == (1, "")
    assert r"triggers.\u0442\u0438\u043f" in ran.stdout
