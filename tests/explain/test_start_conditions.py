"""`tidegate check` refuses what `tidegate run` refuses, in the same words and with the same exit code."""

from __future__ import annotations

import ast
import os
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import chdir
from pathlib import Path

import pytest
from gateway_file.places import place_fault
from gateway_log.backup import OWN

from gateway_core.config.registry import Registry
from gateway_core.contract.component import Component
from gateway_core.contract.errors import StartError
from gateway_core.contract.hookspecs import hookimpl
from gateway_core.contract.settings import Settings
from gateway_core.runtime import start_conditions
from tests.command_line import tidegate
from tests.tree import CORE, SHIPPED, module_path

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


@pytest.mark.slow
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


def _folder(path: Path) -> None:
    path.mkdir(parents=True)


def _file(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("not JSON")


def _shard_known(path: Path) -> None:
    path.write_text('{"format": 1, "shards": {"0": {"next": 7}}}')


def _no_number(path: Path) -> None:
    path.write_text('{"format": 1, "shards": {"x": {"next": 7}}}')


def _link(path: Path) -> None:
    path.symlink_to(path.parent / "no" / "where")


def _circle(path: Path) -> None:
    path.symlink_to(path)


def _socket(path: Path) -> None:
    with chdir(path.parent), socket.socket(socket.AF_UNIX) as sock:  # a name of at most 107 bytes
        sock.bind(path.name)


def _nothing(path: Path) -> None:
    """It has to be missing."""


Make = Callable[[Path], None]
ONE = "brokers: {default: {}}"
SINKS = {
    "a subscriber `file`": "brokers: {default: {}}\ntriggers: {t: {subscriber: {file: {path: PATH}}}}",
    "a broker's dead letter": "brokers: {default: {dead_letter: {deadletter: {path: PATH}}}}",
    "a broker's dead letter `file`": "brokers: {default: {dead_letter: {file: {path: PATH}}}}",
    "a trigger's dead letter": (
        "brokers: {default: {}}\n"
        "triggers: {t: {subscriber: 'http://127.0.0.1:1/', dead_letter: {deadletter: {path: PATH}}}}"
    ),
    "a bridge's sink": (
        "bridges: {b: {source: {http: {listen: '127.0.0.1:18080'}}, sink: {file: {path: PATH}},"
        " dead_letter: {deadletter: {path: other.jsonl}}}}"
    ),
}
WRITTEN: dict[str, tuple[Make, str, str, str]] = {
    "a folder": (_folder, "at", "at", "it is a folder"),
    "a socket": (_socket, "at", "at", "it is a socket"),
    "a link to nowhere": (_link, "at", "at", "whose folder does not exist"),
    "a link to itself": (_circle, "at", "at", "symbolic links"),
    "in a file": (_file, "at", "at/in/it", "is no folder"),
    "too long a name": (_nothing, "at", "x" * 300, "File name too long"),
    "the log": (_nothing, "at", "data/log/default/shard-000.db", "a gateway keeps its own log there"),
    "the lock": (_nothing, "at", "data/gateway.lock", "a gateway keeps its own gateway.lock there"),
    "the admin token": (_nothing, "at", "data/./admin.token", "a gateway keeps its own admin.token there"),
    "another gateway's log": (_file, "d/gateway.lock", "d/log/default/shard-001.db", "a gateway keeps its own log"),
}
"""What is made, where; the path in the config; what is said."""


@pytest.mark.slow
@pytest.mark.spec("SAFE-184")
@pytest.mark.parametrize("case", WRITTEN)
def test_check_and_run_refuse_a_place_where_no_line_can_be_written(case: str, tmp_path: Path) -> None:
    make, at, path, message = WRITTEN[case]
    make(_parents(tmp_path / at))
    for sink, text in SINKS.items():
        _refused(tmp_path, text.replace("PATH", str(tmp_path / path)), message, run=sink == "a bridge's sink")


@pytest.mark.slow
@pytest.mark.spec("SAFE-184")
def test_lines_may_be_written_wherever_a_gateway_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "gateway.lock").touch()
    (tmp_path / "there.jsonl").touch()
    (tmp_path / "link").symlink_to(tmp_path / "there.jsonl")
    (tmp_path / "new").symlink_to(tmp_path / "made-by-the-gateway")
    names = ("data/dead-letter/x.jsonl", "data/files/x", "data/mine.jsonl", "there.jsonl", "link", "new", "a/b/c")
    for path in (*(tmp_path / name for name in names), Path(os.devnull)):
        file = tmp_path / "tidegate.yaml"
        file.write_text(SINKS["a subscriber `file`"].replace("PATH", str(path)))
        checked = tidegate("check", file, "--data-dir", tmp_path / "data")
        assert checked.returncode == 0, checked.stdout


@pytest.mark.slow
@pytest.mark.spec("SAFE-184")
def test_all_that_a_gateway_keeps_is_kept_from_lines(tmp_path: Path) -> None:
    page = (ROOT / "docs/howto/upgrade-and-backup.md").read_text()
    told = set(re.findall(r"`DATA_DIR/([\w.-]+)", page)) - {"replaced-TIME"}
    assert {"log", "dead-letter", "names.json", "admin.token"} <= told
    open_to_lines = {name for name in told | OWN if not place_fault(tmp_path / name / "x", tmp_path)}
    assert open_to_lines == {"dead-letter", "files"}


KEPT: dict[str, tuple[Make, str, str]] = {
    "the data directory is a file": (_file, "data", "is no folder"),
    "a folder over the data directory is a file": (_file, "data/..", "is no folder"),
    "the lock is a folder": (_folder, "data/gateway.lock", "gateway.lock in it is a folder"),
    "the log is a file": (_file, "data/log", "is no folder"),
    "a broker's log is a file": (_file, "data/log/default", "is no folder"),
    "the dead letters are a file": (_file, "data/dead-letter", "is no folder"),
    "a file of dead letters is a folder": (_folder, "data/dead-letter/default.jsonl", "it is a folder"),
    "the log's metadata is damaged": (_file, "data/log/default/meta.json", "meta.json is damaged"),
    "the log's metadata is a folder": (_folder, "data/log/default/meta.json", "meta.json can't be opened"),
    "the lock of the log's metadata is a folder": (_folder, "data/log/default/meta.lock", "meta.lock can't be opened"),
    "a shard is a folder": (_folder, "data/log/default/shard-000.db", "shard-000.db can't be opened"),
    "a shard's write-ahead log is a folder": (_folder, "data/log/default/shard-000.db-wal", "can't be opened"),
    "a shard's index is a folder": (_folder, "data/log/default/shard-000.db-shm", "can't be opened"),
    "a shard's lock is a folder": (_folder, "data/log/default/shard-000.lock", "shard-000.lock can't be opened"),
    "a shard of the log's metadata has no number": (_no_number, "data/log/default/meta.json", "meta.json is damaged"),
    "a shard is missing": (_shard_known, "data/log/default/meta.json", "shard-000.db is missing"),
    "what was applied is a file": (_file, "data/applied", "which triggers are paused"),
    "what is paused is a folder": (_folder, "data/applied/paused.json", "which triggers are paused"),
    "what is paused is damaged": (_file, "data/applied/paused.json", "which triggers are paused"),
}
"""What is made, where; what is said."""


@pytest.mark.slow
@pytest.mark.spec("SAFE-184")
@pytest.mark.parametrize("case", KEPT)
def test_check_and_run_refuse_a_data_directory_that_can_be_none(case: str, tmp_path: Path) -> None:
    make, at, message = KEPT[case]
    data = tmp_path / "data"
    if at == "data/..":
        data, at = tmp_path / "f" / "data", "f"
    make(_parents(tmp_path / at))
    _refused(tmp_path, ONE, message, data=data)


@pytest.mark.slow
@pytest.mark.spec("SAFE-184")
def test_check_and_run_refuse_a_folder_of_spark_that_is_a_file(tmp_path: Path) -> None:
    _file(tmp_path / "data" / "spark")
    text = f"{ONE}\ntriggers: {{t: {{subscriber: {{spark: {{path: {tmp_path}/table}}}}}}}}"
    _refused(tmp_path, text, "is no folder")


CA = "tls: {ca_file: PATH}"
TLS = "tls: {cert_file: PATH, key_file: PATH}"
READ = {
    "http": f"brokers: {{default: {{ingress: [{{http: {{listen: '127.0.0.1:0', {TLS}}}}}]}}}}",
    "websocket": f"brokers: {{default: {{ingress: [{{websocket: {{listen: '127.0.0.1:0', {TLS}}}}}]}}}}",
    "pull": f"{ONE}\ntriggers: {{t: {{subscriber: {{pull: {{listen: '127.0.0.1:0', {TLS}}}}}}}}}",
    **{
        word: f"brokers: {{default: {{ingress: [{{{word}: {{{options}, {CA}}}}}]}}}}"
        for word, options in {
            "mqtt": "server: '127.0.0.1:1', topic: a",
            "kafka": "bootstrap: '127.0.0.1:1', topic: a",
            "nats": "servers: 'tls://127.0.0.1:1', subject: a",
            "redis": "servers: '127.0.0.1:1', stream: a",
            "rabbitmq": "server: '127.0.0.1:1', queue: a",
        }.items()
    },
    "a subscriber": f"{ONE}\ntriggers: {{t: {{subscriber: {{http: {{url: 'https://127.0.0.1:1/', {CA}}}}}}}}}",
    **{
        word: f"brokers: {{default: {{ingress: [{{http: {{listen: '127.0.0.1:0', authenticate: [{options}]}}}}]}}}}"
        for word, options in {
            "api_key": "{api_key: {file: PATH}}",
            "basic": "{basic: {file: PATH}}",
            "hmac": "{hmac: {header: x, secret_files: [PATH]}}",
            "oidc": "{oidc: {issuer: 'https://a.example', audience: x, jwks_file: PATH}}",
        }.items()
    },
}
"""Components that read a file when they start."""


@pytest.mark.slow
@pytest.mark.spec("SAFE-184")
@pytest.mark.parametrize("case", READ)
def test_check_and_run_refuse_a_file_that_can_not_be_read(case: str, tmp_path: Path) -> None:
    for name, make in (("missing", _nothing), ("folder", _folder)):
        make(tmp_path / name)
        _refused(tmp_path, READ[case].replace("PATH", str(tmp_path / name)), "can't be read", words="can't be")


def _parents(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _refused(
    folder: Path, text: str, message: str, *, data: Path | None = None, run: bool = True, words: str | None = None
) -> None:
    """`check` says why, and `run` ends with the same words; or with these, which the system said."""
    file, data = folder / "tidegate.yaml", data or folder / "data"
    file.write_text(text)
    checked = tidegate("check", file, "--data-dir", data)
    assert message in checked.stdout
    assert checked.returncode == 1
    if run:
        ran = tidegate("run", file, "--data-dir", data)
        assert (words or message) in ran.stderr
        assert ran.returncode in ((1, 3) if words else (1,))


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
    from gateway_core.contract.configs import load

    registry = Registry.installed()
    registry.add("choosy", Choosy())
    file = tmp_path / "tidegate.yaml"
    file.write_text("brokers: {default: {}}\ntriggers: {t: {filters: [choosy], subscriber: 'http://127.0.0.1:1/'}}")
    config = load([file], registry)
    (fault,) = start_conditions.of_components(config, Settings(data_dir=tmp_path / "data"), registry)
    assert (fault.path, fault.message) == ("triggers.t.filters[0]", "this one is never content")


# -- no refusal outside ---------------------------------------------------------------------------------------------

COMMANDS = ("java", "spark/submit", "spark/maintenance")
"""Parts that no gateway has: commands, and libraries for them."""
MACHINE = re.compile(
    r"can't (listen|write|use|create|be (read|opened|used|written|created|loaded|imported))|not started within|UTF-8"
    r"|another gateway|is in use|is writing there|is damaged|version of Tidegate that wrote it|was interrupted"
    r"|had all events before|worker ended|the secret in|needs PySpark"
)
"""What the machine, its files or the installation refuse: another start may find it fixed."""
SAID_ELSEWHERE = {
    "cli/lazy.py": "commands",
    "config/installed.py": "plugins that can't be used: `check` reads the same registry",
    "config/registry.py": "the same; and components, which are built by `of_components`",
    "runtime/component_tasks.py": "what a component raised at its start",
    "runtime/gateway.py": "a change of the config before the start or during a stop",
    "gateway_api/routes.py": "plugins of one installation, whatever the config: only a gateway builds services",
    "runtime/build.py": "`of_components`: delays",
    "gateway_access/exposure.py": "`of_components`, and as a check of the config with lines",
    "gateway_admin/applied.py": "`of_settings`",
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
    "gateway_log/deduplication.py": "keys that are damaged, and in no row",
    "gateway_log/starts.py": "a shard that can't be read",
    "gateway_nats/channel.py": "a check of the config, and the server",
    "gateway_nats/connect.py": "`of_components`",
    "gateway_nats/once.py": "a check of the config, and the server",
    "gateway_oidc/issuer.py": "`of_components`: files of keys and certificates",
    "gateway_pull/listener.py": "a check of the config: one address, two options",
    "gateway_pull/sink.py": "`of_components`",
    "gateway_redis/sink.py": "the server",
    "gateway_spark/query.py": "the process of the query",
    "gateway_spark/sink.py": "a check of the config: readers and channels",
    "gateway_transport/connection.py": "the server",
    "gateway_schedule/source.py": "`of_components`, and a disk that can't be written",
    "gateway_schedule/state.py": "a file that the gateway itself wrote",
    "gateway_signing/signing_keys.py": "`of_components`: secrets",
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
    for top in (CORE, *SHIPPED.values()):
        for file in top.rglob("*.py"):
            name = module_path(file).as_posix().removeprefix("gateway_core/")
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
