"""docs/tutorial/a-transport.md: its package passes `tidegate plugin check`, and carries events as the page says."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from gateway_plugins.new import Kind, write
from gateway_testing import GatewayProcess

from tests import web
from tests.docs.blocks import of_page

PAGE = "docs/tutorial/a-transport.md"
CONFIG = of_page(PAGE, "yaml")[0].text


def _files() -> dict[str, str]:
    """The page's files: each block of Python begins with its path."""
    found = {}
    for block in of_page(PAGE, "python"):
        head, _, text = block.text.partition("\n")
        found[head.removeprefix("# ")] = text
    return found


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The page's package, as someone has it who followed the page."""
    root = write(Kind.source, "jobs", tmp_path / "tidegate-jobs")
    known = {str(file.relative_to(root)) for file in root.rglob("*")}
    for path, text in _files().items():
        assert path in known or path in ("src/tidegate_jobs/sink.py", "tests/job_server.py")
        (root / path).write_text(text)
    (root / "docs" / "jobs.md").write_text(f"# The transport `jobs`\n\n```yaml\n{CONFIG}```\n")
    return root


@pytest.mark.spec("PD-04")
def test_its_code_uses_public_names_only() -> None:
    for path, text in _files().items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gateway_"):
                assert not any(alias.name.startswith("_") for alias in node.names), path
            elif isinstance(node, ast.Attribute) and node.attr.startswith("_"):
                assert isinstance(node.value, ast.Name), f"{path}: {ast.unparse(node)}"
                assert node.value.id == "self", f"{path}: {ast.unparse(node)}"


@pytest.mark.spec("PD-04")
@pytest.mark.usefixtures("processes")
@pytest.mark.full
def test_its_package_passes_the_check(package: Path) -> None:
    command = [sys.executable, "-m", "gateway_core.cli", "plugin", "check", str(package), "--offline", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    document = json.loads(done.stdout)
    assert (done.returncode, [step for step in document["steps"] if step["failures"]]) == (0, [])
    (tests,) = [step for step in document["steps"] if step["name"] == "tests"]
    count = tests["about"].partition(" ")[0]
    assert f"These are {count} tests." in (Path(__file__).parents[2] / PAGE).read_text()
    assert {(c["kind"], c["guarantees"]["workers"]) for c in document["components"]} == {
        ("source", "share"),
        ("sink", "all"),
    }


@pytest.mark.spec("PD-04")
@pytest.mark.usefixtures("processes")
def test_an_event_goes_through_the_server_and_comes_back(package: Path, tmp_path: Path) -> None:
    facts = package / "src" / "tidegate_jobs-0.1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: tidegate-jobs\nVersion: 0.1.0\n")
    (facts / "entry_points.txt").write_text("[tidegate]\njobs = tidegate_jobs.plugin\n")
    spec = importlib.util.spec_from_file_location("tutorial_job_server", package / "tests" / "job_server.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    server = module.JobServer()
    server.listen()
    try:
        config = CONFIG.replace("7000", str(server.port)).replace("127.0.0.1:8080", "127.0.0.1:0")
        with GatewayProcess(config, tmp_path, {"PYTHONPATH": str(package / "src")}) as gateway:
            server.leave()
            event = {"specversion": "1.0", "id": "1", "source": "/s", "type": "hello", "data": {"n": 1}}
            headers = {"content-type": "application/cloudevents+json"}
            assert web.post(gateway.ingress(), json=event, headers=headers, verify=False).status_code == 202
            gateway.wait_until(lambda: gateway.status()["triggers"][0]["last_error"], what="the outage to show")
            server.listen()
            arrived = tmp_path / "events.jsonl"
            gateway.wait_until(lambda: arrived.exists() and arrived.read_text(), 60, "the event to come back")
            assert json.loads(arrived.read_text())["data"] == {"n": 1}
    finally:
        server.leave()
