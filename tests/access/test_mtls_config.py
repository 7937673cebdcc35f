"""What `tidegate check` says of authenticators that not every source suits: certificates have to be asked for, and to
be told apart; signatures need a body."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway_core.config.registry import Registry
from gateway_core.contract.configs import load_all
from gateway_core.contract.errors import ConfigError

pytestmark = pytest.mark.spec("HM-10")

TLS = "tls: {cert_file: a.pem, key_file: a.key%s}"


def checked(
    folder: Path, options: str, section: str = "brokers: {default: {ingress: [%s]}}", kind: str = "http"
) -> list[str]:
    """The faults, or else the warnings, of a source with these options."""
    file = folder / "tidegate.yaml"
    file.write_text(section % f"{{{kind}: {{listen: '127.0.0.1:0', {options}}}}}")
    try:
        return [f"{w.path}: {w.message}" for w in load_all([file], Registry.installed(), {}).warnings]
    except ConfigError as e:
        return [f"{f.path}: {f.message}" for f in e.faults]


NOT_ASKED = "`mtls` without client certificates: the TLS handshake does not ask for any"
ALL = "every certificate of the authorities in `client_ca_file` may send"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("authenticate: [mtls]", NOT_ASKED),
        (f"{TLS % ''}, authenticate: [mtls: {{common_names: [a]}}]", NOT_ASKED),
        (f"{TLS % ', client_ca_file: ca.pem'}, authenticate: [mtls]", ALL),
        (f"{TLS % ', client_ca_file: ca.pem'}, authenticate: [mtls: {{common_names: [a]}}]", ""),
        (f"{TLS % ', client_ca_file: ca.pem'}, authenticate: [mtls], allow: [{{from: ['CN=a']}}]", ""),
    ],
)
def test_what_is_said_of_a_source(tmp_path: Path, options: str, says: str) -> None:
    found = checked(tmp_path, options)
    assert found == ([f"brokers.default.ingress[0].http.authenticate[0]: {says}"] if says else [])


def test_a_bridge_is_checked_too(tmp_path: Path) -> None:
    bridge = "bridges: {b: {source: %s, sink: {file: {path: x}}, dead_letter: {file: {path: y}}}}"
    assert checked(tmp_path, "authenticate: [mtls]", bridge) == [f"bridges.b.source.http.authenticate[0]: {NOT_ASKED}"]


def test_no_fault_shows_a_secret(tmp_path: Path) -> None:
    wrong = "authenticate: [hmac: {secrets: [very-secret-secret]}, standard_webhooks: {secrets: [whsk_very-secret]}]"
    found = checked(tmp_path, wrong)
    assert len(found) == 2
    assert "very-secret" not in str(found)


@pytest.mark.parametrize(("name", "options"), [("hmac", "preset: github, "), ("standard_webhooks", "")])
def test_a_handshake_has_no_body_to_sign(tmp_path: Path, name: str, options: str) -> None:
    signed = f"authenticate: [{{{name}: {{{options}secrets: [whsec_{'c2VjcmV0' * 8}]}}}}]"
    says = f"`{name}` checks the signature of a body, and senders to `websocket` sign none"
    assert checked(tmp_path, signed, kind="websocket") == [
        f"brokers.default.ingress[0].websocket.authenticate[0]: {says}"
    ]
    assert says not in str(checked(tmp_path, signed))
