"""Quotas in a config that would limit nobody."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway_core.config.registry import Registry
from gateway_core.contract.configs import load_all
from gateway_core.contract.errors import ConfigError

KEYS = "authenticate: [api_key: {file: keys.json}]"


def found(folder: Path, options: str) -> list[tuple[str, str]]:
    """The faults and warnings of an ingress with these options: where, and what."""
    (folder / "keys.json").write_text('{"keys": []}')
    file = folder / "tidegate.yaml"
    file.write_text(f"brokers: {{default: {{ingress: [http: {{listen: '127.0.0.1:0', {options}}}]}}}}")
    try:
        findings = load_all([file], Registry.installed(), {}).warnings
    except ConfigError as e:
        findings = e.faults
    assert all(each.line for each in findings)
    return [(each.path.partition(".quota")[2], each.message) for each in findings]


@pytest.mark.spec("LI-07")
@pytest.mark.parametrize(
    ("options", "where", "says"),
    [
        ("quota: {overrides: [{from: [key a], requests_per_s: 1}]}", ".overrides[0]", "no sender here can be"),
        (f"{KEYS}, quota: {{overrides: [{{from: [anonymous], requests_per_s: 1}}]}}", ".overrides[0]", "no sender"),
        (f"{KEYS}, quota: {{overrides: [{{from: [a], authenticator: apikey}}]}}", ".overrides[0]", "no sender"),
        ("quota: {failures_per_minute: 5}", ".failures_per_minute", "limits nothing"),
        ("quota: {per_identity: {burst_s: 5}}", "", "`per_identity.burst_s` does nothing without a rate"),
        ("quota: {overrides: [{from: [anonymous], burst_s: 5}]}", "", "`overrides[0].burst_s` does nothing"),
    ],
)
def test_what_limits_nobody_is_found(options: str, where: str, says: str, tmp_path: Path) -> None:
    ((place, text),) = found(tmp_path, options)
    assert (place, text[: len(says)]) == (where, says)


@pytest.mark.spec("LI-07")
@pytest.mark.parametrize(
    "options",
    [
        "quota: {overrides: [{from: [anonymous], requests_per_s: 1}]}",
        f"{KEYS}, anonymous: true, quota: {{overrides: [{{from: [anonymous]}}, {{from: [key a]}}]}}",
        f"{KEYS}, quota: {{failures_per_minute: 5, overrides: [{{from: ['*'], authenticator: api_key}}]}}",
        "quota: {failures_per_minute: null, total: {bytes_per_s: 5, burst_s: 2}}",
    ],
)
def test_other_quotas_are_not(options: str, tmp_path: Path) -> None:
    assert found(tmp_path, options) == []
