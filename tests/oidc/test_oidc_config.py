"""What `tidegate check` says of `oidc`: senders whom nobody could tell apart, and keys that are not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway_core.config.registry import Registry
from gateway_core.contract.configs import load_all
from gateway_core.contract.errors import ConfigError

pytestmark = pytest.mark.spec("OI-13")


def checked(folder: Path, config: str) -> list[str]:
    """The faults, or else the warnings, of a config."""
    file = folder / "tidegate.yaml"
    file.write_text(config)
    try:
        return [f"{w.path}: {w.message}" for w in load_all([file], Registry.installed(), {}).warnings]
    except ConfigError as e:
        return [f"{f.path}: {f.message}" for f in e.faults]


def http(*authenticators: str) -> str:
    return f"{{http: {{listen: '127.0.0.1:0', authenticate: [{', '.join(authenticators)}]}}}}"


def oidc(issuer: str, more: str = "") -> str:
    return f"{{oidc: {{issuer: 'https://{issuer}', audience: x{more}}}}}"


SAME = "the issuers https://a and https://b can give different senders the same subject"
AT = "brokers.one.ingress[0].http.authenticate[1]: "
BEGINS = "https://a could give a sender a subject that begins with `b:`, as those of https://b do"


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        (oidc("a"), oidc("b"), SAME),
        (oidc("a", ", subject_prefix: 'x:'"), oidc("b", ", subject_prefix: 'x:'"), SAME),
        (oidc("a", ", subject_prefix: 'a:'"), oidc("b", ", subject_prefix: 'b:'"), ""),
        (oidc("a"), oidc("b", ", subject_prefix: 'b:'"), BEGINS),
        (oidc("a", ", subject_prefix: b"), oidc("b", ", subject_prefix: 'b:'"), BEGINS),
        (oidc("a"), oidc("a", ", claims: {scope: x}"), ""),
        (
            oidc("a"),
            oidc("a", ", subject: name"),
            "the claims `sub` and `name` of https://a can give different senders the same subject",
        ),
    ],
)
def test_two_issuers_at_one_ingress(tmp_path: Path, first: str, second: str, says: str) -> None:
    found = checked(tmp_path, f"brokers: {{one: {{ingress: [{http(first, second)}]}}}}")
    assert found == ([AT + says] if says else [])


@pytest.mark.parametrize(
    ("config", "place"),
    [
        ("brokers: {one: {ingress: [%s, %s]}}", "brokers.one.ingress[1].http.authenticate[0]"),
        ("brokers: {one: {ingress: [%s]}, two: {ingress: [%s]}}", ""),
        (
            "brokers: {one: {ingress: [%s]}, two: {ingress: [%s]}}\npolicies: {p: {brokers: all, from: [x]}}",
            "brokers.two.ingress[0].http.authenticate[0]",
        ),
        (
            "brokers: {one: {ingress: [%s]}, two: {ingress: [%s]}}\n"
            "policies: {p: {brokers: [one], from: [x]}, q: {brokers: [two], from: [x]}}",
            "",
        ),
    ],
)
def test_two_issuers_of_a_gateway(tmp_path: Path, config: str, place: str) -> None:
    found = checked(tmp_path, config % (http(oidc("a")), http(oidc("b"))))
    assert found == ([f"{place}: {SAME}"] if place else [])


def test_two_issuers_of_operators(tmp_path: Path) -> None:
    entry = f"people: {{authenticate: [{oidc('a')}, {oidc('b')}], role: viewer}}"
    found = checked(tmp_path, f"brokers: {{one: {{ingress: [{{http: {{}}}}]}}}}\noperators: {{{entry}}}")
    assert found == [f"operators.people.authenticate[1]: {SAME}"]


def test_keys_that_are_not_there(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    config = f"brokers: {{one: {{ingress: [{http(oidc('a', f', jwks_file: {file}'))}]}}}}"
    at = "brokers.one.ingress[0].http.authenticate[0].oidc.jwks_file"
    assert checked(tmp_path, config) == [f"{at}: there is no file {file}: the gateway would not start"]
    file.write_text('{"keys": []}')
    assert checked(tmp_path, config) == []


@pytest.mark.slow
def test_two_secrets_of_one_name(tmp_path: Path) -> None:
    one, other = ("{hmac: {preset: github, secrets: ['%s']}}" % (c * 20) for c in "ab")
    named = "{hmac: {preset: github, name: other, secrets: ['%s']}}" % ("b" * 20)
    for second, says in ((one, []), (named, []), (other, ["another secret proves the same sender, `hmac github`"])):
        found = checked(tmp_path, f"brokers: {{one: {{ingress: [{http(one)}, {http(second)}]}}}}")
        assert found == [f"brokers.one.ingress[1].http.authenticate[0]: {text}" for text in says]
