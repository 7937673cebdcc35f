"""The configs that ship are right: by the loader, the command line and the editor schema, with what is installed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from gateway_core.config.load import load
from gateway_core.config.sources import is_scenario
from gateway_core.registry import Registry

ROOT = Path(__file__).parents[2]
CONFIGS = sorted(f for f in (ROOT / "configs").glob("*.yaml") if not is_scenario(f))
ENV = {"RELAY_TOKEN": "for-tests"}


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-m", "gateway_core.cli", "schema"], capture_output=True, text=True)
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


@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: file.name)
def test_a_config_fits_the_editor_schema(file: Path, schema: dict[str, Any]) -> None:
    documents = list(YAML(typ="safe").load_all(file))
    own = [d for d in documents if "kind" not in d]  # the schema is not for Knative's manifests
    assert own
    for document in own:
        jsonschema.Draft202012Validator(schema).validate(document)


def test_the_editor_schema_knows_a_misspelt_key(schema: dict[str, Any]) -> None:
    text = (ROOT / "configs" / "demo.yaml").read_text().replace("subscriber:", "subscribr:")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema).validate(YAML(typ="safe").load(text))


@pytest.mark.slow
def test_all_configs_pass_the_check_command() -> None:
    for file in CONFIGS:
        command = [sys.executable, "-m", "gateway_core.cli", "check", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, env=ENV)
        assert done.returncode == 0, f"{file.name}: {done.stdout}{done.stderr}"


def yaml_in(page: str) -> str:
    """The first YAML block of a page."""
    return (ROOT / page).read_text().split("```yaml\n")[1].split("```")[0]


def test_the_config_in_the_readme_has_no_faults(tmp_path: Path) -> None:
    file = tmp_path / "tidegate.yaml"
    file.write_text(yaml_in("README.md"))
    assert set(load([file], Registry.installed(), {}).triggers) == {"large-orders", "archive"}


@pytest.mark.parametrize("name", ["first-pipeline", "kafka-bridge"])
def test_the_tutorial_shows_the_config_that_ships(name: str) -> None:
    yaml = YAML(typ="safe")
    assert yaml.load(yaml_in(f"docs/tutorial/{name}.md")) == yaml.load(ROOT / "configs" / f"{name}.yaml")
