"""What `tidegate plugin check` sees where a plugin is installed, for one with many faults."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from gateway_plugins import inside

PLUGIN = '''
import wave
from typing import Annotated
from pydantic import Field
from gateway_core.contract.component import CodecRef, Component, Config, Transport
from gateway_core.contract.hookspecs import hookimpl


class Inner(Config):
    """A part of the options."""

    deep: int = 1


class Options(Config):
    """The options."""

    good: Annotated[int, Field(ge=1)] = 5
    """A good one."""
    low: Annotated[int, Field(ge=1)] = 0
    """Its default is too low."""
    bare: str = ""
    inner: Inner = Inner()
    """Leads to another model."""
    codec: CodecRef = CodecRef("morse")
    """Names a codec that does not exist."""


@hookimpl
def gateway_transports():
    sink = Component("faulty", "Has faults.", Options, lambda o, c: None, requires=("wave", "absent_library"))
    return [Transport("faulty", sink=sink)]
'''

PAGE = """
```yaml
brokers: {default: {ingress: [http: {listen: "127.0.0.1:0"}]}}
triggers: {t: {subscriber: {faulty: {good: 0}}}}
```
"""


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    """What the check finds, by step."""
    facts = tmp_path / "tidegate_faulty-1.0.dist-info"
    facts.mkdir()
    (tmp_path / "tidegate_faulty.py").write_text(PLUGIN)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: tidegate-faulty\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[tidegate]\nfaulty = tidegate_faulty\n")
    (tmp_path / "README.md").write_text(PAGE)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("tidegate_faulty", "wave"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    found = inside.look("tidegate-faulty", [tmp_path / "README.md"])
    assert [(c["kind"], c["name"], c["guarantees"]) for c in found["components"]] == [("sink", "faulty", None)]
    return {step["name"]: step for step in found["steps"]}


@pytest.mark.slow
@pytest.mark.spec("PD-03")
def test_every_fault_is_named(steps: dict[str, dict[str, Any]]) -> None:
    load, options = steps["load"], steps["options"]
    assert any("not from the wheel" in text for text in load["failures"])
    assert "sink faulty imports wave when it is loaded: import it where the component is built" in load["failures"]
    assert load["warnings"] == ["sink faulty needs absent_library"]
    assert options["failures"] == [
        "sink faulty: the default of low is invalid: Input should be greater than or equal to 1",
        "sink faulty: the option bare has no description",
        "sink faulty: the default of codec is invalid: there is no codec 'morse'",
        "sink faulty: the option deep has no description",
    ]
    assert steps["promises"]["failures"] == [
        "sink faulty does not say what it promises: give its component `guarantees`"
    ]
    faults = steps["pages"]["failures"]
    assert any(text.startswith("README.md: triggers.t.subscriber.faulty.good: ") for text in faults), faults


def test_a_plugin_that_cant_be_imported_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = tmp_path / "tidegate_broken-1.0.dist-info"
    facts.mkdir()
    (tmp_path / "tidegate_broken.py").write_text("1 / 0\n")
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: tidegate-broken\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[tidegate]\nbroken = tidegate_broken\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    (step,) = inside.look("tidegate-broken", [])["steps"]
    assert step["failures"] == ["tidegate_broken can't be imported: ZeroDivisionError: division by zero"]
