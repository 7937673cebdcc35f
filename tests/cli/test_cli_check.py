"""`tidegate check`: the report, its exit code, and trying the real ends."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from gateway_testing import Subscriber

GOOD = "bridges:\n  b:\n    source: {{http: {{listen: '127.0.0.1:{port}'}}}}\n    sink: {sink}\n"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "c.yaml"


@pytest.mark.slow
def test_a_good_config(tidegate, config: Path) -> None:
    config.write_text(GOOD.format(port=0, sink="stdout"))
    ran = tidegate("check", config)
    assert (ran.code, ran.out) == (0, "no faults\n")
    assert json.loads(tidegate("check", config, "--json").out) == {
        "ok": True,
        "faults": [],
        "warnings": [],
        "outlook": [],
    }


@pytest.mark.slow
def test_faults_are_reported_with_their_place(tidegate, config: Path) -> None:
    config.write_text("bridges:\n  b:\n    source: htp\n    sink: stdout\n")
    ran = tidegate("check", config)
    assert ran.code == 1
    assert "c.yaml:3: bridges.b.source: unknown source `htp`" in ran.out
    report = json.loads(tidegate("check", config, "--json").out)
    assert (report["ok"], report["faults"][0]["path"], report["faults"][0]["line"]) == (False, "bridges.b.source", 3)


@pytest.mark.slow
def test_run_reports_the_same_faults(tidegate, config: Path) -> None:
    config.write_text("bridges:\n  b:\n    source: htp\n    sink: stdout\n")
    ran = tidegate("run", config)
    assert (ran.code, ran.err) == (1, tidegate("check", config).out)


def probes(ran: Any) -> dict[str, str]:
    return {probe["path"]: probe["reason"] for probe in json.loads(ran.out)["probes"]}


@pytest.mark.slow
def test_connect_tries_the_ends(tidegate, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_ADMIN", "127.0.0.1:0")
    with Subscriber() as subscriber:
        config.write_text(GOOD.format(port=0, sink=subscriber.url))
        ran = tidegate("check", config, "--connect", "--json")
    assert (ran.code, set(probes(ran).values())) == (0, {""})
    ran = tidegate("check", config, "--connect", "--json")
    assert (ran.code, probes(ran)["bridges.b.sink"]) == (1, "Connection refused")
    assert "FAILED  bridges.b.sink" in tidegate("check", config, "--connect").out


def test_connect_finds_a_port_that_is_taken(tidegate, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_ADMIN", "off")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config.write_text(GOOD.format(port=taken.getsockname()[1], sink="stdout"))
        ran = tidegate("check", config, "--connect", "--json")
    assert (ran.code, probes(ran)["bridges.b.source"]) == (1, "Address already in use")


def test_connect_finds_a_place_that_cant_be_written(tidegate, config: Path, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    config.write_text(GOOD.format(port=0, sink="{file: {path: plain/events.jsonl}}"))
    ran = tidegate("check", config, "--connect", "--json")
    assert (ran.code, "plain is not a directory" in probes(ran)["bridges.b.sink"]) == (1, True)


def test_connect_says_at_the_end_how_many_ends_failed(tidegate, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_ADMIN", "127.0.0.1:0")
    config.write_text(GOOD.format(port=0, sink="http://127.0.0.1:1/"))
    assert tidegate("check", config, "--connect").out.endswith("\n\nno faults, 1 of 4 ends FAILED\n")
    config.write_text(GOOD.format(port=0, sink="stdout"))
    assert tidegate("check", config, "--connect").out.endswith("\n\nno faults, all 3 ends ok\n")


def test_connect_finds_a_path_that_run_would_refuse(tidegate, config: Path, tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    config.write_text(GOOD.format(port=0, sink="{file: {path: events}}"))
    ran = tidegate("check", config, "--connect", "--json")
    assert (ran.code, "events is a directory" in probes(ran)["bridges.b.sink"]) == (1, True)


@pytest.mark.slow
@pytest.mark.spec("SAFE-01")
def test_a_filter_in_any_dialect_names_attributes_that_events_can_have(tidegate, config: Path) -> None:
    triggers = (
        "  a: {filters: [{exact: {da-ta: x}}, {any: [{prefix: {Source: x}}]}], subscriber: stdout}\n"
        "  b: {filters: [{suffix: {type: .x}}], subscriber: stdout}\n"
    )
    config.write_text("brokers: {default: {}}\ntriggers:\n" + triggers)
    report = json.loads(tidegate("check", config, "--json").out)
    assert [f["path"] for f in report["faults"]] == ["triggers.a.filters[0].exact.da-ta"]
    config.write_text("brokers: {default: {}}\ntriggers:\n" + triggers.replace("da-ta", "type"))
    report = json.loads(tidegate("check", config, "--json").out)
    assert report["ok"]
    assert [(w["path"], w["remedy"]) for w in report["warnings"] if "0.1" in w["message"]] == [
        ("triggers.a.filters[1].any[0].prefix.Source", "did you mean `source`?")
    ]
