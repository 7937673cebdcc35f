"""The editor schema accepts what the loader accepts, and refuses what is misspelt."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from config_plugins import registry
from gateway_inspect.schema import schema

from gateway_core.contract.config_yaml import read
from gateway_core.contract.interpolation import Interpolator
from tests.installed import REGISTRY

HERE = Path(__file__).parent
SCHEMA = schema(registry())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def _documents(file: Path) -> list[Any]:
    """The file's documents with their places unfilled, as an editor sees them."""
    unfilled = read(file.read_bytes().replace(b"$", b"\xef\xbc\x84"), str(file)).documents
    made = [Interpolator({}, None, lambda *_: None).plain(d, ()) for d in unfilled]
    return json.loads(json.dumps(made).replace("\\uff04", "$"))  # type: ignore[no-any-return]


@pytest.mark.slow
def test_the_schema_is_valid_and_self_contained() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    text = json.dumps(SCHEMA)
    refs = {r.split('"')[0] for r in text.split('"$ref": "')[1:]}
    assert refs
    assert all(r.startswith("#/$defs/") and r.removeprefix("#/$defs/") in SCHEMA["$defs"] for r in refs)


@pytest.mark.parametrize("file", sorted((HERE / "good").glob("*.yaml")), ids=lambda f: f.name)
def test_a_good_config_is_accepted(file: Path) -> None:
    for document in _documents(file):
        assert [e.json_path for e in VALIDATOR.iter_errors(document)] == []


def test_keys_are_described() -> None:
    trigger = SCHEMA["$defs"]["TriggerConfig"]["properties"]
    assert trigger["subscriber"]["description"] == "Where matching events go."
    assert "exponential" in json.dumps(SCHEMA["$defs"]["DeliveryConfig"]["properties"]["backoff"])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["trigers"], {}),
        (["triggers", "late", "retries"], 3),
        (["triggers", "late", "delivery", "retrys"], 3),
        (["triggers", "late", "delivery", "retry"], "three"),
        (["triggers", "late", "delivery", "retry"], -1),
        (["triggers", "late", "delivery", "backoff"], "exponental"),
        (["triggers", "late", "subscriber"], "htp"),
        (["triggers", "late", "subscriber"], "http"),
        (["triggers", "late", "subscriber"], "ftp://host/"),
        (["triggers", "late", "subscriber"], {"http": {}}),
        (["triggers", "late", "subscriber"], {"http": {"url": "http://x/", "codec": {"cloudevents": {"mod": 1}}}}),
        (["triggers", "late", "subscriber"], {"stdout": None, "http": {"url": "http://x/"}}),
        (["triggers", "late", "filters"], [{"all": [{"not": {"exakt": {}}}]}]),
        (["triggers", "bad name"], {"subscriber": "stdout"}),
        (["brokers", "default", "ingress"], "http"),
    ],
)
def test_what_is_misspelt_is_refused(path: list[str], value: Any) -> None:
    document = copy.deepcopy(_documents(HERE / "good" / "whole.yaml")[0])
    inner = document
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    assert not VALIDATOR.is_valid(document)


INSTALLED = jsonschema.Draft202012Validator(schema(REGISTRY))
ON_DATA: list[tuple[dict[str, Any], bool]] = [
    ({"total": {"gt": 100}, "customer.tier": ["gold", None, 5, True, {"prefix": ["a", "b"]}]}, True),
    ({"a": None, "b": {"not": [1, {"suffix": "x"}]}, "c": [{"exists": False}], "$max_bytes": 1000}, True),
    ({"a": "${TIER}", "b": ["${TIER}"], "c": {"prefix": "${TIER}", "gt": "${LEAST}"}}, True),
    ({}, False),
    ({"a": {"gtt": 1}}, False),
    ({"a": {"gt": [1]}}, False),
    ({"a": {}}, False),
    ({"a": []}, False),
    ({"a": {"not": {"exists": True}}}, False),
    ({"a": 1, "$max_bytes": 0}, False),
]


@pytest.mark.spec("FILT-08")
@pytest.mark.parametrize(("data", "valid"), ON_DATA)
def test_conditions_on_data(data: dict[str, Any], valid: bool) -> None:
    found = {"triggers": {"t": {"subscriber": "http://127.0.0.1:9/", "filters": [{"data": data}]}}}
    assert INSTALLED.is_valid(found) is valid
