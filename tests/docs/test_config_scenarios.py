"""Every config that ships has scenarios, and they pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from gateway_inspect.schema import schema
from gateway_scenario.files import find_cases, is_scenario
from gateway_scenario.result import Result, failure_text, run_cases
from ruamel.yaml import YAML

from gateway_core.config.registry import Registry
from tests.command_line import tidegate

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "configs").glob("*.yaml"))
CONFIGS = [file for file in FILES if not is_scenario(file)]
SCENARIOS = [file for file in FILES if is_scenario(file)]


@pytest.fixture(scope="module")
def results() -> list[Result]:
    registry = Registry.installed()
    return run_cases(find_cases([ROOT / "configs"], registry, {}), registry)


@pytest.mark.slow
@pytest.mark.parametrize("config", CONFIGS, ids=lambda file: file.name)
def test_every_config_has_scenarios_that_pass(config: Path, results: list[Result]) -> None:
    own = [r for r in results if Path(r.case.file) == config.with_suffix(".scenario.yaml")]
    assert own, f"write {config.stem}.scenario.yaml"
    assert [failure_text(r) for r in own if not r.passed] == []


@pytest.mark.slow
def test_every_trigger_and_bridge_of_the_configs_is_in_an_expectation(results: list[Result]) -> None:
    there = {(r.case.file, name) for r in results for name in (*r.case.config.triggers, *r.case.config.bridges)}
    expected = {
        (r.case.file, name)
        for r in results
        for name in (*r.case.scenario.expect.triggers, *r.case.scenario.expect.bridges)
    }
    assert there == expected


@pytest.mark.slow
@pytest.mark.parametrize("file", SCENARIOS, ids=lambda file: file.name)
def test_the_editor_schema_admits_the_scenarios(file: Path, editor_schema: dict[str, Any]) -> None:
    tests = YAML(typ="safe").load(file)["tests"]
    jsonschema.Draft202012Validator(editor_schema).validate({"tests": json.loads(json.dumps(tests))})


@pytest.fixture(scope="module")
def editor_schema() -> dict[str, Any]:
    return schema(Registry.installed())


@pytest.mark.slow
def test_the_command_runs_them_all(tmp_path: Path) -> None:
    done = tidegate("test", ROOT / "configs", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert (report["ok"], report["failed"]) == (True, 0)
    assert {Path(s["file"]).name for s in report["scenarios"]} == {file.name for file in SCENARIOS}
    assert list(tmp_path.iterdir()) == [], "nothing is written"
