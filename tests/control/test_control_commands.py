"""`tidegate apply`, `get`, `delete`, `pause`, `resume`, `reload`."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from gateway_core.cli import main

pytestmark = pytest.mark.usefixtures("processes")


class Ran:
    def __init__(self, code: object, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def tidegate(console, capsys, monkeypatch, tmp_path: Path) -> Callable[..., Ran]:
    """A command for the gateway of this module, in a folder of the test's own."""
    monkeypatch.chdir(tmp_path)
    for name in [n for n in os.environ if n.startswith("TIDEGATE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TIDEGATE_DATA_DIR", str(console.gateway.data_dir))

    def run(*arguments: object) -> Ran:
        with pytest.raises(SystemExit) as ended:
            main([str(a) for a in arguments])
        return Ran(ended.value.code, *capsys.readouterr())

    return run


def write(name: str, text: str) -> str:
    Path(name).write_text(text)
    return name


def test_from_apply_to_delete(tidegate) -> None:
    one = write("one.yaml", "triggers:\n  one: {subscriber: http://127.0.0.1:9/, filter: {type: none}}\n")
    done = tidegate("apply", "-f", one)
    assert (done.code, done.out) == (0, "trigger one created\n")
    assert tidegate("apply", "-f", one).out == "trigger one unchanged\n"
    assert tidegate("pause", "one").out == "trigger one paused\n"
    rows = [line.split() for line in tidegate("get", "triggers").out.splitlines()]
    assert rows[0] == ["NAME", "READY", "REASON", "SINCE", "BROKER", "SUBSCRIBER", "MESSAGE"]
    assert rows[1][:3] == ["one", "False", "Paused"]
    assert rows[2][:3] == ["own", "True", "Delivering"]
    assert tidegate("resume", "one").out == "trigger one resumed\n"
    assert "applied" in tidegate("get", "triggers", "one", "-o", "wide").out
    assert json.loads(tidegate("get", "trigger", "one", "--json").out)["metadata"]["id"] == "one"
    assert tidegate("get", "triggers", "--json", "-o", "yaml").code == 2
    assert tidegate("delete", "trigger", "one").out == "trigger one deleted\n"
    gone = tidegate("get", "triggers", "one")
    assert (gone.code, gone.err) == (1, "tidegate: there is no trigger `one`\n")


def test_faults_have_their_place_in_the_users_files(tidegate, monkeypatch) -> None:
    good = write("good.yaml", "# first\ntriggers:\n  good:\n    subscriber: http://127.0.0.1:9/")  # no line break
    Path("more").mkdir()
    bad = write("more/bad.yaml", "\ufefftriggers:\n  bad:\n    subscriber: http://127.0.0.1:9/\n    retry: 3\n")
    write("more/x.scenario.yaml", "tests: {}\n")
    refused = tidegate("apply", "-f", good, "-f", "more")
    assert refused.code == 1
    assert f"{bad}:4: triggers.bad.retry: unknown key `retry`" in refused.err
    assert "1 fault" in refused.err
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"triggers:\n\n  piped: {}\n")))
    piped = tidegate("apply", "-f", good, "-f", "-", "--json")
    (fault,) = json.loads(piped.out)["faults"]
    assert (piped.code, fault["file"], fault["line"]) == (1, "standard input", 3)
    assert tidegate("get", "triggers", "good").code == 1


def test_whatever_is_shown_can_be_read_by_programs(tidegate, console) -> None:
    document = console.get("brokers", "default")
    shown = json.loads(tidegate("get", "brokers", "default", "-o", "json").out)
    assert shown["spec"] == document["spec"]
    as_yaml = YAML(typ="safe", pure=True).load(tidegate("get", "brokers", "-o", "yaml").out)
    assert as_yaml["items"][0]["status"]["address"] == document["status"]["address"]
    wide = tidegate("get", "bridges", "-o", "wide").out
    assert console.get("bridges", "across")["status"]["sourceUri"] in wide


def test_reload_says_what_is_wrong(tidegate, console) -> None:
    good = console.gateway.config.read_text()
    assert tidegate("reload").out.startswith("config read again: generation ")
    try:
        console.gateway.config.write_text(good + "  nonsense: {files: x}\n")
        refused = tidegate("reload")
        where = f"{console.gateway.config}:{len(good.splitlines()) + 1}: secrets.nonsense"
        assert (refused.code, where in refused.err) == (1, True), refused.err
    finally:
        console.gateway.config.write_text(good)
    assert tidegate("reload").code == 0


def test_what_the_gateway_refuses_is_1_and_what_is_no_command_2(tidegate) -> None:
    refused = tidegate("delete", "trigger", "own")
    assert (refused.code, "tidegate.yaml:7: change it there" in refused.err) == (1, True)
    assert tidegate("delete", "broker", "default").code == 2
    assert tidegate("get", "pods").code == 2
    assert tidegate("apply").code == 2
    away = tidegate("get", "triggers", "--admin", "127.0.0.1:1")
    assert (away.code, "no response from http://127.0.0.1:1" in away.err) == (1, True)


def test_the_token_is_sent_from_the_environment(start, tidegate, monkeypatch) -> None:
    config = 'brokers: {default: {ingress: [{http: {listen: "127.0.0.1:0"}}]}}\n'
    guarded = start(config, {"TIDEGATE_ADMIN_TOKEN": "open-sesame"})
    for command in (["get", "brokers"], ["status"], ["reload"]):
        refused = tidegate(*command, "--admin", guarded.url)
        assert (refused.code, "TIDEGATE_ADMIN_TOKEN" in refused.err) == (1, True)
    monkeypatch.setenv("TIDEGATE_ADMIN_TOKEN", "open-sesame")
    for command in (["get", "brokers"], ["status"], ["reload"]):
        assert tidegate(*command, "--admin", guarded.url).code == 0
    assert guarded.http.get("/health/ready").status_code == 200
    assert "open-sesame" not in guarded.gateway.log()
