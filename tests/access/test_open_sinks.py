"""Sinks that listen: `check` warns if anyone may fetch their events."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command_line import tidegate

WARNING = "anyone who reaches this address gets the events"


@pytest.mark.spec("SE-05")
@pytest.mark.parametrize("sink", ["pull", "websocket"])
@pytest.mark.parametrize(
    ("options", "warned"),
    [
        ({"listen": "0.0.0.0:8082"}, True),
        ({"listen": "[::]:8082"}, True),
        ({"listen": "0.0.0.0:8082", "token": "a-token-of-some-length"}, False),
        ({"listen": "127.0.0.1:8082"}, False),
        ({"listen": "[::1]:8082"}, False),
    ],
)
def test_a_sink_that_anyone_may_fetch_from_is_warned_of(
    tmp_path: Path, sink: str, options: dict[str, str], warned: bool
) -> None:
    config = tmp_path / "c.yaml"
    broker = {"ingress": [{"http": {"listen": "127.0.0.1:0"}}]}
    config.write_text(json.dumps({"brokers": {"default": broker}, "triggers": {"t": {"subscriber": {sink: options}}}}))
    report = json.loads(tidegate("check", config, "--json").stdout)
    assert report["ok"]
    assert [w["path"] for w in report["warnings"] if w["message"] == WARNING] == ["triggers.t.subscriber"] * warned


@pytest.mark.spec("SE-05")
def test_a_websocket_sink_that_connects_gives_nothing_away(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("bridges: {b: {source: http, sink: 'ws://example.com/feed'}}\n")
    assert WARNING not in tidegate("check", config).stdout
