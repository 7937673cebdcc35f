"""A plugin whose library is not installed breaks no command of another, and says what installs it."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from typing import Any

import pytest

from gateway_core.cli.lazy import FOR_DEVELOPMENT
from gateway_core.config import installed
from gateway_core.config.registry import Registry
from tests.installed import REGISTRY
from tests.tree import DEV, GROUPS, ROOT

BLOCKED = """
import contextlib, importlib.util, io, json, sys
gone, commands = set(json.loads(sys.argv[1])), json.loads(sys.argv[2])
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in gone:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocker())
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name.partition(".")[0] in gone else found(name, package)
from gateway_core.cli import main
said = []
for command in commands:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            main(command)
        except SystemExit as e:
            said.append((e.code, out.getvalue()))
print(json.dumps(said))
"""
BROKER = "brokers: {default: {ingress: [{http: {listen: '127.0.0.1:0'}}]}}\n"
PLAIN = BROKER + "triggers: {all: {subscriber: stdout}}\n"
USES = {
    "redis": "bridges: {b: {source: {redis: {url: 'redis://127.0.0.1:1', streams: a}}, sink: stdout}}",
    "mqtt": "bridges: {b: {source: {mqtt: {url: 'mqtt://127.0.0.1:1/a'}}, sink: stdout}}",
    "nats": "bridges: {b: {source: {nats: {url: 'nats://127.0.0.1:1/a'}}, sink: stdout}}",
    "rabbitmq": "bridges: {b: {source: {rabbitmq: {url: 'amqp://127.0.0.1:1/', queue: a}}, sink: stdout}}",
    "kafka": "bridges: {b: {source: {kafka: {url: 'kafka://127.0.0.1:1/a'}}, sink: stdout}}",
    "kafka-confluent": "bridges: {b: {source: {kafka: {url: 'kafka://127.0.0.1:1/a', client: confluent}}, "
    "sink: stdout}}",
    "websocket": "bridges: {b: {source: {websocket: {url: 'ws://127.0.0.1:1/'}}, sink: stdout}}",
    "oidc": "brokers: {b: {ingress: [{http: {listen: '127.0.0.1:0', authenticate: [{oidc: {issuer: 'https://i.example',"
    " audience: a}}]}}]}}",
    "otel": "observers: [otel]",
    "schedule": "bridges: {b: {source: {schedule: {name: s, every: 1h}}, sink: stdout}}",
    "spark": BROKER + "triggers: {t: {subscriber: {spark: {path: /tmp/t}}}}",
}
"""A config that needs the extra."""
NEEDS = {"offsets": "kafka"}
"""Commands that do nothing without the library of an extra."""
LIBRARIES = {
    o.component.extra: sorted(
        {
            m
            for other in REGISTRY.offers()
            if other.component.extra == o.component.extra
            for m in other.component.requires
        }
    )
    for o in REGISTRY.offers()
    if o.component.extra
}


def ran(gone: list[str], *commands: list[str]) -> list[tuple[int, str]]:
    done = subprocess.run(
        [sys.executable, "-P", "-c", BLOCKED, json.dumps(gone), json.dumps(commands)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return [(code, said) for code, said in json.loads(done.stdout)]


@pytest.mark.spec("SAFE-97")
def test_every_optional_library_has_a_config_here() -> None:
    assert USES.keys() == LIBRARIES.keys()


@pytest.mark.spec("SAFE-97")
@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("extra", ["all", *(pytest.param(name, marks=pytest.mark.full) for name in USES)])
def test_a_library_that_is_missing_breaks_no_command_of_another(extra: str, tmp_path: Path) -> None:
    gone = [m for libraries in LIBRARIES.values() for m in libraries] if extra == "all" else LIBRARIES[extra]
    plain = tmp_path / "plain.yaml"
    plain.write_text(PLAIN)
    event = tmp_path / "event.json"
    event.write_text('{"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}')
    data = ["--data-dir", str(tmp_path / "data")]
    commands: list[list[str]] = [
        ["check", str(plain), "--connect", *data],
        ["plugins", "--json"],
        ["schema"],
        ["graph", str(plain)],
        ["explain", str(event), str(plain)],
        ["--help"],
        *([name, "--help"] for name in sorted(REGISTRY.commands)),
    ]
    users = []
    for name in USES if extra == "all" else [extra]:
        file = tmp_path / f"{name}.yaml"
        file.write_text(USES[name])
        users += [["check", str(file), "--connect", *data], ["run", str(file), *data]]
    results = ran(gone, *commands, *users)
    for command, (code, said) in zip(commands, results, strict=False):
        if command[0] in NEEDS and extra in (NEEDS[command[0]], "all"):
            assert (code, said) == (3, "tidegate: the command 'offsets' needs aiokafka: install tidegate[kafka]\n")
        else:
            assert (code, "internal error" in said) == (0, False), (command, said)
    for command, (code, said) in zip(users, results[len(commands) :], strict=True):
        name = Path(command[1]).stem
        assert (code, f"tidegate[{name}]" in said, "internal error" in said) == (1, True, False), (command, said)


class Broken:
    """A plugin whose check of connections imports what is not there."""

    from gateway_core.contract.hookspecs import hookimpl

    @hookimpl
    def gateway_connection_checks(self) -> list[Any]:
        def check(config: object, settings: object) -> None:
            raise ModuleNotFoundError("No module named 'nowhere'", name="nowhere")

        return [check]


@pytest.mark.spec("SAFE-97")
def test_a_check_that_fails_is_named_with_its_plugin_and_the_others_go_on(
    tidegate: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = REGISTRY
    registry.add("broken", Broken())
    monkeypatch.setattr(Registry, "installed", lambda: registry)
    file = tmp_path / "tidegate.yaml"
    file.write_text(PLAIN)
    checked = tidegate("check", str(file), "--connect", "--data-dir", str(tmp_path / "data"))
    assert checked.code == 1
    assert "plugin broken" in checked.out
    assert "No module named 'nowhere'" in checked.out
    assert "listen 127.0.0.1:0" in checked.out


@pytest.mark.spec("SAFE-97")
@pytest.mark.usefixtures("processes")
def test_a_command_for_development_says_what_installs_it(tmp_path: Path) -> None:
    plain = tmp_path / "plain.yaml"
    plain.write_text(PLAIN)
    tools = tomllib.loads((DEV / "pyproject.toml").read_text())["project"]["entry-points"]["tidegate"]
    offered = {command.name for command, plugin in installed.commands() if plugin in tools}  # type: ignore[misc]
    assert offered == set(FOR_DEVELOPMENT)
    without = tmp_path / "site"
    without.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "tidegate_dev" not in entry.name:
            (without / entry.name).symlink_to(entry)
    path = [str(ROOT), *map(str, GROUPS.values()), str(without)]
    commands = json.dumps([[name] for name in FOR_DEVELOPMENT])
    run = subprocess.run(
        [sys.executable, "-S", "-P", "-c", f"import sys; sys.path += {path}\n{BLOCKED}", "[]", commands],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    for name, (exit_code, said) in zip(FOR_DEVELOPMENT, json.loads(run.stdout), strict=True):
        assert exit_code == 3
        what = "pip install 'tidegate[dev]', or ./dev in a clone"
        assert said == f"tidegate: the command {name!r} is for development: {what}\n"
