"""The config and the scenario on the page about duplicates."""

from __future__ import annotations

from pathlib import Path

import pytest
from gateway_scenario.files import find_cases
from gateway_scenario.result import failure_text, run_cases

from gateway_core.config.registry import Registry
from tests.docs.blocks import of_page

PAGE = "docs/howto/deduplicate.md"


@pytest.mark.spec("ONCE-01")
def test_its_scenario_passes_with_its_config(tmp_path: Path) -> None:
    config, scenario = of_page(PAGE, "yaml")
    (tmp_path / "tidegate.yaml").write_text(config.text)
    (tmp_path / "tidegate.scenario.yaml").write_text(scenario.text)
    registry = Registry.installed()
    (result,) = run_cases(find_cases([tmp_path], registry, {}), registry)
    assert result.passed, failure_text(result)
