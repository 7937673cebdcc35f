"""The configs that ship are right: by the loader, the command line and the editor schema, with what is installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from gateway_scenario.files import find_cases, is_scenario
from gateway_scenario.result import failure_text, run_cases
from ruamel.yaml import YAML

from gateway_core.config.registry import Registry
from gateway_core.contract.configs import load
from tests.command_line import tidegate

ROOT = Path(__file__).parents[2]
CONFIGS = sorted(f for f in (ROOT / "configs").glob("*.yaml") if not is_scenario(f))
ENV = {
    "RELAY_TOKEN": "for-tests",
    "DEVICE_TOKEN": "for-tests",
    "RABBITMQ_PASSWORD": "for-tests",
    "SHOP_TOKEN": "for-tests",
}


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    done = tidegate("schema")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_there_are_configs() -> None:
    assert {"demo.yaml", "first-pipeline.yaml"} <= {file.name for file in CONFIGS}


@pytest.mark.spec("CARD-04")
@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: file.name)
def test_a_config_has_no_faults(file: Path) -> None:
    config = load([file], Registry.installed(), ENV)
    assert config.brokers or config.bridges


@pytest.mark.slow
@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: file.name)
def test_a_config_fits_the_editor_schema(file: Path, schema: dict[str, Any]) -> None:
    documents = list(YAML(typ="safe").load_all(file))
    own = [d for d in documents if "kind" not in d]  # the schema is not for Knative's manifests
    assert own
    for document in own:
        jsonschema.Draft202012Validator(schema).validate(document)


@pytest.mark.slow
def test_the_editor_schema_knows_a_misspelt_key(schema: dict[str, Any]) -> None:
    text = (ROOT / "configs" / "demo.yaml").read_text().replace("subscriber:", "subscribr:")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema).validate(YAML(typ="safe").load(text))


@pytest.mark.slow
def test_all_configs_pass_the_check_command() -> None:
    for file in CONFIGS:
        done = tidegate("check", file, env=ENV)
        assert done.returncode == 0, f"{file.name}: {done.stdout}{done.stderr}"


def yaml_in(page: str) -> str:
    """The first YAML block of a page."""
    return (ROOT / page).read_text().split("```yaml\n")[1].split("```")[0]


def test_the_pipeline_in_the_readme_does_what_the_first_pipeline_does(tmp_path: Path) -> None:
    """It passes the scenarios of the tutorial's config, and what its retries don't deliver is in its dead letter."""
    (tmp_path / "tidegate.yaml").write_text(yaml_in("README.md"))
    scenarios = YAML(typ="safe").load(ROOT / "configs" / "first-pipeline.scenario.yaml")
    scenarios["tests"]["an order that the subscriber rejects is a dead letter"] = {
        "events": [{"event": {"id": "large-1", "type": "order.placed", "size": "large"}}],
        "answers": {"large-orders": [400]},
        "expect": {"triggers": {"large-orders": {"dead_lettered": ["large-1"]}, "archive": {"delivered": ["large-1"]}}},
    }
    YAML().dump(scenarios, tmp_path / "tidegate.scenario.yaml")
    registry = Registry.installed()
    results = run_cases(find_cases([tmp_path], registry, {}), registry)
    assert len(results) == 4
    assert [failure_text(r) for r in results if not r.passed] == []


@pytest.mark.parametrize("name", ["first-pipeline", "kafka-bridge"])
def test_the_tutorial_shows_the_config_that_ships(name: str) -> None:
    yaml = YAML(typ="safe")
    assert yaml.load(yaml_in(f"docs/tutorial/{name}.md")) == yaml.load(ROOT / "configs" / f"{name}.yaml")
