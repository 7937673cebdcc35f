"""A gateway loads what its config uses, and pages of the admin API when somebody asks for one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

CONFIG = """
brokers:
  default:
    ingress:
      - http: {listen: "127.0.0.1:0"}
triggers:
  orders:
    filter: {type: order.placed}
    subscriber: http://127.0.0.1:9/
"""
PROGRAM = """
import json, os, signal, sys
from pathlib import Path
from gateway_core.runtime.run import run
from gateway_core.contract.settings import Settings

def started(_):
    print(json.dumps(sorted(sys.modules)))
    os.kill(os.getpid(), signal.SIGTERM)

run([Path("tidegate.yaml")], Settings(data_dir=Path("data"), admin="127.0.0.1:0"), on_started=started)
"""
LIBRARIES = {
    *("aiokafka", "confluent_kafka", "paho", "nats", "pamqp", "redis", "websockets", "pyspark", "pyarrow", "pandas"),
    *("httpx", "hypercorn", "h2", "jinja2", "rich", "joserfc", "cryptography", "opentelemetry", "pytest"),
}
OTHERS = {
    *("auth", "cesql", "conformance", "demo", "dev", "fn", "kafka", "knative", "mqtt", "nats", "oidc", "otel"),
    *("pull", "rabbitmq", "redis", "scenario", "spark", "webhook", "websocket"),
}
"""Plugins that the config does not use."""
DESCRIBED = {"plugin", "guarantees", "config_check", "durable", "errors"}
"""What says that a component exists, and what looks for it in a config."""
LATER = {
    *("gateway_admin.table", "gateway_admin.models", "gateway_admin.control", "gateway_admin.openapi"),
    *("gateway_console.parts", "gateway_console.routes", "gateway_console.page", "gateway_deadletter.routes"),
    *("gateway_deadletter.replays", "gateway_inspect.routes", "gateway_inspect.tap", "gateway_basics.config"),
    "gateway_core.runtime.replacement",
}


@pytest.fixture(scope="module")
def loaded(processes: None, tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The modules of a gateway that has just started."""
    folder = tmp_path_factory.mktemp("start")
    (folder / "tidegate.yaml").write_text(CONFIG)
    command = [sys.executable, "-c", PROGRAM]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=True)
    return set(json.loads(ran.stdout))


def test_it_has_no_library_of_others(loaded: set[str]) -> None:
    assert "gateway_http.source" in loaded
    assert {name.partition(".")[0] for name in loaded} & LIBRARIES == set()


def test_it_has_no_models_of_plugins_that_it_does_not_use(loaded: set[str]) -> None:
    inner = [name.removeprefix("gateway_").split(".") for name in loaded if name.startswith("gateway_") and "." in name]
    assert {(plugin, module) for plugin, module, *_ in inner if plugin in OTHERS and module not in DESCRIBED} == set()


def test_help_needs_neither_models_nor_tables(processes: None, tmp_path: Path) -> None:
    program = "import sys; from gateway_core.cli import _run; _run(['--help']); print(*sys.modules, file=sys.stderr)"
    ran = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert "Stream real flight records" in ran.stdout
    slow = {"pydantic", "msgspec", "httpx", "anyio", "asyncio", "rich", "ruamel", "markdown_it", "pygments"}
    assert {name.partition(".")[0] for name in ran.stderr.split()} & slow == set()


def test_it_has_no_pages(loaded: set[str]) -> None:
    assert loaded & LATER == set()
