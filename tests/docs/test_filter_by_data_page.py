"""The config, the scenario, the table and the explanation on the page about the filter `data`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from gateway_basics.data_config import Operators
from gateway_inspect.cli.explain import clause_lines
from gateway_inspect.explain import clause_json
from gateway_scenario.files import find_cases
from gateway_scenario.result import failure_text, run_cases

from gateway_core.config.registry import Registry
from gateway_core.contract.config_yaml import read
from gateway_core.contract.configs import load
from gateway_core.contract.event import Event
from gateway_core.contract.filters import clause_of
from gateway_core.runtime.offline import built_offline
from tests.docs.blocks import ROOT, of_page

PAGE = "docs/howto/filter-by-data.md"
_CODE = re.compile(r"`([^`]+)`|\babsent\b")


def rows() -> list[list[str]]:
    """The table of conditions."""
    text = (ROOT / PAGE).read_text()
    lines = text.partition("## Conditions")[2].partition("`prefix`, `suffix`")[0].splitlines()
    return [line.strip("| ").split(" | ") for line in lines if line.startswith("| `")]


def event(data: str) -> Event:
    head = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "order.placed"}
    return Event({**head, "datacontenttype": "application/json"}, data.encode())


def filter_of(config: str, folder: Path) -> Any:
    (folder / "tidegate.yaml").write_text(config)
    registry = Registry.installed()
    return next(iter(built_offline(load([folder / "tidegate.yaml"], registry), registry).triggers.values())).filter


@pytest.mark.spec("FILT-10")
def test_its_scenario_passes_with_its_config(tmp_path: Path) -> None:
    config, scenario = of_page(PAGE, "yaml")
    (tmp_path / "tidegate.yaml").write_text(config.text)
    (tmp_path / "tidegate.scenario.yaml").write_text(scenario.text)
    registry = Registry.installed()
    (result,) = run_cases(find_cases([tmp_path], registry, {}), registry)
    assert result.passed, failure_text(result)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_each_row_of_the_table_is_true(row: list[str], tmp_path: Path) -> None:
    condition = row[0].strip("`")
    trigger = f"{{filters: [{{data: {{v: {condition}}}}}], subscriber: 'http://127.0.0.1:9/'}}"
    made = filter_of(f"brokers: {{default: {{}}}}\ntriggers: {{t: {trigger}}}\n", tmp_path)
    for cell, expected in ((row[1], True), (row[2], False)):
        values = [match[1] for match in _CODE.finditer(cell)]
        assert values
        for value in values:
            assert made.matches(event("{}" if value is None else f'{{"v": {value}}}')) is expected, value


def test_the_table_has_every_operator() -> None:
    words = {word for row in rows() for word in re.findall(r"(\w+):", row[0])}
    assert words == {field.alias or name for name, field in Operators.model_fields.items()}


@pytest.mark.spec("FILT-07")
def test_the_explanation_is_what_it_shows(tmp_path: Path) -> None:
    config, _ = of_page(PAGE, "yaml")
    made = filter_of(config.text, tmp_path)
    clause = clause_of(made, event(json.dumps({"total": "500", "customer": {"tier": "gold"}})))
    (shown,) = of_page(PAGE, "")
    assert [f"  {line}" for line in clause_lines(clause_json(clause))] == shown.text.splitlines()[1:]


def test_the_other_configs_can_be_read() -> None:
    text = (ROOT / PAGE).read_text()
    for written in re.findall(r"`(data: \{[^`…]+\}|not: \{data[^`…]+\})`", text):
        assert not read(written.encode(), "").faults, written
