"""`tidegate plugins NAME`."""

from __future__ import annotations

import json

import pytest

from gateway_core.config.registry import Registry


@pytest.mark.slow
@pytest.mark.spec("PD-01")
def test_the_command_shows_a_card(tidegate) -> None:
    text = tidegate("plugins", "kafka").out
    assert [line for line in text.splitlines() if line and not line.startswith(" ")] == [
        f"{o.kind} {o.component.name}: {o.component.summary}"
        for o in Registry.installed().offers()
        if o.plugin == "kafka"
    ]
    assert "with a share of the events" in " ".join(text.split())
    rows = {(r["kind"], r["name"]): r["guarantees"] for r in json.loads(tidegate("plugins", "http", "--json").out)}
    assert rows["source", "http"]["modes"] == ["binary", "structured", "batch"]
    assert rows["sink", "http"]["workers"] == "all"
    missing = tidegate("plugins", "kafak")
    assert (missing.code, missing.err) == (
        1,
        "tidegate: no component or plugin is called 'kafak'; did you mean kafka?\n",
    )
