"""Options that say who may come in, and are there but empty: a fault, since they look closed."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway_core.config.registry import Registry
from gateway_core.contract.configs import load
from gateway_core.contract.errors import ConfigError
from tests.command_line import tidegate

HTTP = "brokers: {b: {ingress: [{http: {listen: '127.0.0.1:0', OPTION}}]}}"
TO = "triggers: {t: {subscriber: {http: {url: 'https://h.example/', OPTION}}}}"
EMPTY = {
    "the ingress' TLS": (HTTP, "tls: "),
    "the ingress' client authorities": (HTTP, "tls: {cert_file: a, key_file: b, client_ca_file: }"),
    "authenticate": (HTTP, "authenticate: "),
    "no authenticator": (HTTP, "authenticate: []"),
    "allow": (HTTP, "allow: "),
    "nothing allowed": (HTTP, "allow: []"),
    "the subjects allowed": (HTTP, "allow: [{from: , claims: {a: b}}]"),
    "quota": (HTTP, "quota: "),
    "quota from the environment": (HTTP, "quota: ${EMPTY:-}"),
    "a limit": (HTTP, "quota: {per_identity: {requests_per_s: }}"),
    "the handshake": (HTTP, "webhook: "),
    "an authenticator's option": (HTTP, "authenticate: [{hmac: {preset: , header: x, secrets: [abcdefgh]}}]"),
    "the sink's TLS": (TO, "tls: "),
    "the sink's credentials": (TO, "credentials: "),
    "the sink's permission": (TO, "webhook: "),
    "the token of a listener": ("triggers: {t: {subscriber: {pull: {listen: '127.0.0.1:0', OPTION}}}}", "token: "),
    "the dead letter's encryption": ("brokers: {b: {dead_letter: {deadletter: {OPTION}}}}", "encrypt: "),
    "policies": (f"{HTTP.replace(', OPTION', '')}\nOPTION", "policies: "),
    "a policy": ("policies: {p: }\n", ""),
    "a policy's subjects": ("policies: {p: {brokers: [b], OPTION, claims: {a: b}}}", "from: "),
    "operators": ("OPTION", "operators: "),
    "an operator": ("operators: {o: }", ""),
    "roles": ("operators: {o: {authenticate: [{api_key: {file: k}}], OPTION}}", "roles: "),
    "apply": ("OPTION", "apply: "),
    "what may be applied": ("apply: {OPTION}", "allow: "),
    "folders": ("apply: {allow: {OPTION}}", "folders: "),
}


@pytest.mark.spec("AC-09")
@pytest.mark.parametrize(("text", "option"), EMPTY.values(), ids=EMPTY)
def test_an_empty_option_that_protects_is_a_fault(tmp_path: Path, text: str, option: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(text.replace("OPTION", option))
    with pytest.raises(ConfigError) as failed:
        load([file], Registry.installed(), {})
    told = "\n".join(map(str, failed.value.faults))
    assert "empty" in told or "nothing" in told or "expected a mapping" in told, told


def test_an_option_that_is_null_on_purpose_may_be(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(HTTP.replace("OPTION", "quota: {failures_per_minute: null}"))
    load([file], Registry.installed(), {})


@pytest.mark.slow
@pytest.mark.spec("AU-12")
def test_check_looks_into_the_files_of_credentials(tmp_path: Path) -> None:
    keys, users, key = tmp_path / "keys.json", tmp_path / "users.json", tmp_path / "server.key"
    tls = f"tls: {{cert_file: {key}, key_file: {key}, client_ca_file: {tmp_path}/ca.pem}}"
    both = f"authenticate: [{{api_key: {{file: {keys}}}}}, {{basic: {{file: {users}}}}}]"
    sink = (
        f"{{http: {{url: 'https://h/', tls: {{ca_file: {key}}}, credentials: {{bearer_file: {{path: {tmp_path}}}}}}}}}"
    )
    config = tmp_path / "c.yaml"
    config.write_text(
        f"{HTTP.replace('OPTION', f'{tls}, {both}')}\ntriggers: {{t: {{broker: b, subscriber: {sink}}}}}\n"
    )

    def told() -> dict[str, str]:
        done = tidegate("check", config)
        assert done.returncode == 1
        lines = [line.partition(": ")[2] for line in done.stdout.splitlines() if ".yaml:" in line]
        return {line.partition(": ")[0].rpartition(".")[2]: line.partition(": ")[2] for line in lines}

    missing = told()
    assert {"cert_file", "key_file", "client_ca_file", "file", "ca_file", "path"} == missing.keys()
    assert all("No such file" in text for name, text in missing.items() if name != "path")
    assert "not a regular file" in missing["path"]
    for file in (keys, users, key):
        file.write_text("{")
    (tmp_path / "ca.pem").write_text("no certificate")
    broken = tidegate("check", config).stdout
    for expected in ("keys.json: is not a file of API keys", "users.json: is not a file of users", "can't be used"):
        assert expected in broken
    assert "tidegate auth key new NAME" in broken
    keys.write_text('{"keys": []}')
    keys.chmod(0o666)
    assert "every user may write to it" in tidegate("check", config).stdout


@pytest.mark.slow
@pytest.mark.spec("AU-12")
def test_a_config_whose_files_are_right_has_no_faults(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    assert tidegate("auth", "key", "new", "x", "--file", keys).returncode == 0
    config = tmp_path / "c.yaml"
    config.write_text(HTTP.replace("OPTION", f"authenticate: [{{api_key: {{file: {keys}}}}}]"))
    assert "no faults" in tidegate("check", config).stdout
