"""`tidegate check` refuses what `tidegate run` refuses, in the same words and with the same exit code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway_core.config.registry import Registry
from gateway_core.contract.component import Component
from gateway_core.contract.errors import StartError
from gateway_core.contract.hookspecs import hookimpl
from gateway_core.runtime import start_conditions
from gateway_core.runtime.settings import Settings
from tests.command_line import tidegate

ROOT = Path(__file__).parents[2]
HERE = "listen: '127.0.0.1:18080'"
CASES = {
    "an open ingress": ("brokers: {default: {ingress: [{http: {listen: '0.0.0.0:18080'}}]}}", {}, "anyone who reaches"),
    "open subscribers": (
        "brokers: {default: {}}\ntriggers: {t: {subscriber: {pull: {listen: '0.0.0.0:18080'}}}}",
        {},
        "anyone who reaches",
    ),
    "one address with two options": (
        f"brokers: {{default: {{ingress: [{{http: {{{HERE}}}}}]}},"
        f" b: {{ingress: [{{http: {{{HERE}, path: /b, limits: {{max_connections: 9}}}}}}]}}}}",
        {},
        "but not `limits`",
    ),
    "one address of subscribers with two options": (
        f"brokers: {{default: {{}}}}\ntriggers: {{a: {{subscriber: {{pull: {{{HERE}, path: /a}}}}}},"
        f" b: {{subscriber: {{pull: {{{HERE}, path: /b, limits: {{max_connections: 9}}}}}}}}}}",
        {},
        "but not `limits`",
    ),
    "a dead letter at a source's address": (
        f"brokers: {{default: {{ingress: [{{http: {{{HERE}}}}}], dead_letter: {{pull: {{{HERE}, path: /d}}}}}}}}",
        {},
        "already listens on port 18080",
    ),
    "one consumer with two subjects": (
        "brokers: {default: {ingress: [{nats: {subject: a, stream: S}}, {nats: {subject: b, stream: S}}]}}",
        {},
        "uses the NATS consumer tidegate_default, as brokers.default.ingress[0] does",
    ),
    "workers that share no port": (
        "brokers: {default: {ingress: [{http: {listen: '127.0.0.1:0'}}]}}",
        {"TIDEGATE_WORKERS": "2"},
        "2 workers share one port",
    ),
    "workers that share no port of WebSocket": (
        "brokers: {default: {ingress: [{websocket: {listen: '127.0.0.1:0'}}]}}",
        {"TIDEGATE_WORKERS": "2"},
        "2 workers share one port",
    ),
    "workers and a sink for one": (
        f"brokers: {{default: {{}}}}\ntriggers: {{t: {{subscriber: {{pull: {{{HERE}}}}}}}}}",
        {"TIDEGATE_WORKERS": "2"},
        "the sink `pull` works with one worker",
    ),
    "workers and a listening sink": (
        f"brokers: {{default: {{}}}}\ntriggers: {{t: {{subscriber: {{websocket: {{{HERE}}}}}}}}}",
        {"TIDEGATE_WORKERS": "2"},
        "a listening sink works with one worker",
    ),
    "workers and standard output": (
        "brokers: {default: {}}\ntriggers: {t: {subscriber: stdout}}",
        {"TIDEGATE_WORKERS": "2"},
        "stdout works with a single worker only",
    ),
    "an admin API nowhere": (
        "brokers: {default: {}}",
        {"TIDEGATE_ADMIN": "here"},
        "TIDEGATE_ADMIN",
    ),
    "a sink that reads no such channel": (
        "brokers: {default: {channel: jetstream}}\ntriggers: {t: {subscriber: {spark: {path: /tmp/t}}}}",
        {},
        "reads its channel itself",
    ),
    "a function that reads its channel": (
        f"brokers: {{default: {{ingress: [{{fn: {{{HERE}, function: {{spark: {{path: /tmp/t}}}}}}}}]}}}}",
        {},
        "reads the channel itself",
    ),
}


@pytest.mark.spec("SAFE-96")
@pytest.mark.parametrize("case", CASES)
def test_check_refuses_what_run_refuses(case: str, tmp_path: Path) -> None:
    text, env, message = CASES[case]
    file, data = tmp_path / "tidegate.yaml", tmp_path / "data"
    file.write_text(text)
    checked = tidegate("check", str(file), "--data-dir", str(data), env=env)
    assert message in checked.stdout
    assert checked.returncode == 1
    assert not data.exists(), "a check leaves nothing behind"
    if "TIDEGATE_WORKERS" in env:  # the same function says so in a worker; tests/explain has no processes
        return
    ran = tidegate("run", str(file), "--data-dir", str(data), env=env)
    assert message in ran.stderr
    assert ran.returncode == 1, "a service manager would start it again and again"


class Choosy:
    """A plugin whose filter can't be built."""

    @hookimpl
    def gateway_filters(self) -> list[Component]:
        from gateway_core.contract.component import Config

        def build(options: object, context: object) -> None:
            raise StartError("triggers.t.filters[0]: this one is never content")

        return [Component("choosy", "Refuses.", Config, build)]


@pytest.mark.spec("SAFE-96")
def test_what_a_plugin_refuses_when_it_is_built_is_a_fault_of_the_config(tmp_path: Path) -> None:
    from gateway_core.config.load import load

    registry = Registry.installed()
    registry.add("choosy", Choosy())
    file = tmp_path / "tidegate.yaml"
    file.write_text("brokers: {default: {}}\ntriggers: {t: {filters: [choosy], subscriber: 'http://127.0.0.1:1/'}}")
    config = load([file], registry)
    (fault,) = start_conditions.of_components(config, Settings(data_dir=tmp_path / "data"), registry)
    assert (fault.path, fault.message) == ("triggers.t.filters[0]", "this one is never content")


# -- no refusal outside ---------------------------------------------------------------------------------------------

COMMANDS = ("conformance", "demo", "dev", "java", "plugins", "spark/submit", "spark/maintenance", "testing")
"""Parts that no gateway has: commands, and libraries for them."""
MACHINE = re.compile(
    r"can't (listen|write|use|create|be (read|opened|used|written|created|loaded|imported))|not started within|UTF-8"
    r"|another gateway|is in use|is writing there|is damaged|newer than this|was interrupted|had all events before"
    r"|worker ended|the secret in|needs PySpark"
)
"""What the machine, its files or the installation refuse: another start may find it mended."""
SAID_ELSEWHERE = {
    "cli/lazy.py": "commands",
    "config/installed.py": "plugins that can't be used: `check` reads the same registry",
    "config/registry.py": "the same; and components, which are built by `of_components`",
    "runtime/component_tasks.py": "what a component raised at its start",
    "gateway_access/exposure.py": "`of_components`, and as a check of the config with lines",
    "gateway_admin/applied.py": "a file of the data directory",
    "gateway_admin/server.py": "`of_settings`",
    "gateway_auth/edited_file.py": "`of_components`: keys and passwords in files",
    "gateway_auth/standard_webhooks.py": "`of_components`: secrets",
    "gateway_cloudevents/codec.py": "`of_components`",
    "gateway_console/service.py": "`of_settings`",
    "gateway_file/plugin.py": "`of_components`",
    "gateway_fn/function.py": "`of_components`",
    "gateway_http/server.py": "a check of the config: one address, two options",
    "gateway_http/source.py": "`of_components`",
    "gateway_kafka/connect.py": "the cluster",
    "gateway_nats/channel.py": "a check of the config, and the server",
    "gateway_nats/connect.py": "`of_components`",
    "gateway_oidc/issuer.py": "`of_components`: files of keys and certificates",
    "gateway_pull/listener.py": "a check of the config: one address, two options",
    "gateway_pull/sink.py": "`of_components`",
    "gateway_redis/sink.py": "the server",
    "gateway_spark/query.py": "the process of the query",
    "gateway_spark/sink.py": "a check of the config: readers and channels",
    "gateway_transport/connection.py": "the server",
    "gateway_transport/signing_keys.py": "`of_components`: secrets",
    "gateway_websocket/listener.py": "a check of the config: one address, two options",
    "gateway_websocket/sink.py": "`of_components`",
    "gateway_websocket/source.py": "`of_components`",
    "gateway_workers/supervisor.py": "what a worker said",
}
"""Files with other refusals, and where `check` finds the same."""


@pytest.mark.slow
@pytest.mark.spec("SAFE-96")
def test_every_refusal_of_a_start_is_known_to_check() -> None:
    unknown = {file for file, text in _refusals() if not MACHINE.search(text)}
    assert unknown <= SAID_ELSEWHERE.keys(), "let `check` find it, too (gateway_core/runtime/start_conditions.py)"
    assert SAID_ELSEWHERE.keys() <= unknown, "these refuse nothing any more"


@pytest.mark.spec("SAFE-96")
def test_the_published_unit_restarts_nothing_that_check_refuses() -> None:
    page = (ROOT / "docs/howto/run-as-a-service.md").read_text()
    found = re.search(r"^RestartPreventExitStatus=(.*)$", page, re.MULTILINE)
    assert found is not None
    assert "1" in found[1].split()


def _refusals() -> Iterator[tuple[str, str]]:
    for top in (ROOT / "gateway_core", ROOT / "plugins"):
        for file in top.rglob("*.py"):
            name = file.relative_to(top).as_posix()
            if name.removeprefix("gateway_").startswith(COMMANDS):
                continue
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("StartError", "MissingExtra"):
                    parts = (part for argument in node.args for part in ast.walk(argument))
                    yield name, " ".join(str(p.value) for p in parts if isinstance(p, ast.Constant))


@pytest.mark.spec("SAFE-96")
def test_what_was_applied_is_checked_together_with_the_config(tmp_path: Path) -> None:
    """`run` reads the triggers that were applied to its data directory, too."""
    (tmp_path / "data/applied").mkdir(parents=True)
    (tmp_path / "data/applied/twice.yaml").write_text("triggers:\n  twice:\n    subscriber: http://127.0.0.1:1/\n")
    config = tmp_path / "tidegate.yaml"
    config.write_text(
        "brokers: {default: {ingress: [{http: {}}]}}\ntriggers: {twice: {subscriber: 'http://127.0.0.1:2/'}}\n"
    )
    done = tidegate("check", config, "--data-dir", tmp_path / "data")
    assert done.returncode == 1
    assert "`twice` is defined twice" in done.stdout
    assert tidegate("check", config, "--data-dir", tmp_path / "other").returncode == 0
