"""Scenarios in a folder of a test, played without the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest
from gateway_scenario.files import find_cases
from gateway_scenario.result import Result, run_cases

from gateway_core.config.registry import Registry

Play = Callable[..., Result]

CONFIG = """
    brokers:
      default: {ingress: [http], delivery: {backoff_delay_s: 1, retry: 3}}
    triggers:
      a: {subscriber: "http://127.0.0.1:1/a", filter: {type: x}}
      b: {subscriber: "http://127.0.0.1:1/b", filters: [{prefix: {type: reply}}]}
"""


@pytest.fixture(scope="session")
def registry() -> Registry:
    return Registry.installed()


@pytest.fixture
def play(tmp_path: Path, registry: Registry) -> Play:
    """Plays one scenario (YAML) of a config (YAML)."""

    def one(scenario: str, config: str = CONFIG, **env: str) -> Result:
        file = tmp_path / "tidegate.yaml"
        file.write_text(dedent(config))
        (tmp_path / "tidegate.scenario.yaml").write_text(f"tests:\n  it:\n{_indented(scenario)}")
        (result,) = run_cases(find_cases([file], registry, env), registry)
        return result

    return one


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in dedent(text).strip().splitlines())
