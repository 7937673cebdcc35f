"""The plugins that docs/howto/write-a-plugin.md and test-a-plugin.md make work as the pages say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import httpx
import pytest
from gateway_testing import GatewayProcess

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "howto" / "write-a-plugin.md").read_text()
TESTS = (ROOT / "docs" / "howto" / "test-a-plugin.md").read_text()
_BLOCK = re.compile(r"```(?:python|toml)\n# (\S+)\n(.*?)```", re.DOTALL)
BLOCKS = dict(_BLOCK.findall(PAGE))
MORE = dict(_BLOCK.findall(TESTS))


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The page's package, installed the way pip leaves it: modules and the entry points of a distribution."""
    for name, text in {**BLOCKS, **MORE}.items():
        (tmp_path / name).write_text(text)
    info = tmp_path / "tidegate_udp-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tidegate-udp\nVersion: 0.1.0\n")
    points = tomllib.loads(BLOCKS["pyproject.toml"])["project"]["entry-points"]["tidegate"]
    points |= {name: f"tidegate_{name}" for name in ("upper", "quotas", "pipes", "rejected")}
    assert 'upper = "tidegate_upper"' in TESTS
    (info / "entry_points.txt").write_text("[tidegate]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()))
    return tmp_path


def run(package: Path, *command: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([sys.executable, *command], cwd=package, env=env, capture_output=True, text=True)


def test_the_page_has_a_module_an_entry_point_and_a_test() -> None:
    modules = {"tidegate_udp.py", "tidegate_quotas.py", "tidegate_pipes.py", "tidegate_rejected.py"}
    assert set(BLOCKS) == {*modules, "pyproject.toml", "test_udp.py"}
    assert set(MORE) == {"tidegate_upper.py", "test_upper.py", "test_udp_suite.py"}


@pytest.mark.spec("CARD-05")
@pytest.mark.usefixtures("processes")
def test_its_plugin_is_found_by_its_entry_point(package: Path) -> None:
    listed = run(package, "-m", "gateway_core.cli", "plugins", "--json")
    assert listed.returncode == 0, listed.stderr
    assert '"tidegate-udp 0.1.0"' in listed.stdout
    (package / "wrong.yaml").write_text("bridges: {b: {source: http, sink: {udp: {host: h, port: 0}}}}\n")
    checked = run(package, "-m", "gateway_core.cli", "check", "wrong.yaml")
    assert checked.returncode == 1
    assert "port" in checked.stdout + checked.stderr


@pytest.mark.usefixtures("processes")
@pytest.mark.area(name="plugin_packages")
def test_its_own_test_passes(package: Path) -> None:
    done = run(package, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_udp.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


@pytest.mark.usefixtures("processes")
def test_its_configs_have_no_faults(package: Path) -> None:
    configs = [part.split("```")[0] for part in PAGE.split("```yaml\n")[1:]]
    assert [config.split(":")[0] for config in configs] == ["triggers", "quotas", "pipe", "triggers"]
    (package / "all.yaml").write_text("---\n".join(configs))
    checked = run(package, "-m", "gateway_core.cli", "check", "all.yaml")
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.usefixtures("processes")
def test_its_sections_and_documents_have_faults(package: Path) -> None:
    (package / "wrong.yaml").write_text("quotas: {acme: {}}\n---\npipe: a\n---\npipe: b\nto: nowhere\n")
    checked = run(package, "-m", "gateway_core.cli", "check", "wrong.yaml")
    assert checked.returncode == 1, checked.stdout + checked.stderr
    assert "wrong.yaml:1: quotas.acme.per_s: the key `per_s` is missing" in checked.stdout
    assert "wrong.yaml:3: pipe: the key `to` is missing" in checked.stdout
    assert "wrong.yaml:6: to: unknown sink `nowhere`" in checked.stdout


@pytest.mark.usefixtures("processes")
def test_its_number_is_a_metric_and_on_its_page(package: Path) -> None:
    config = PAGE.split("```yaml\n")[-1].split("```")[0]
    config += 'brokers: {default: {ingress: [http: {listen: "127.0.0.1:0"}]}}\n'
    with GatewayProcess(config, package, {"PYTHONPATH": str(package)}) as gateway:
        for id, subject in enumerate(["eu/1", "us/2", "us/3"]):
            event = {"specversion": "1.0", "id": str(id), "source": "/s", "type": "t", "subject": subject}
            headers = {"content-type": "application/cloudevents+json"}
            assert httpx.post(gateway.ingress(), json=event, headers=headers).status_code == 202
        line = 'tidegate_rejected_events_total{trigger="not-europe",place="subscriber"} 2'
        gateway.wait_until(lambda: line in gateway.admin("/metrics").text)
        assert "<th>not-europe</th><td>2</td>" in gateway.admin("/console/rejected").text
        overview = gateway.admin("/console").text
        assert re.search(r'<a href="/console/rejected">Rejected</a></span> <span class="value"[^>]*>2</span>', overview)
        stranger = httpx.get(f"{gateway.admin_url}/console/rejected")
        assert (stranger.status_code, stranger.headers["location"]) == (303, "/console/login?next=/console/rejected")


@pytest.mark.parametrize("name", ["test_upper.py", "test_udp_suite.py"])
@pytest.mark.usefixtures("processes")
@pytest.mark.area(name="plugin_packages")
def test_the_suites_of_the_page_pass(package: Path, name: str) -> None:
    done = run(package, "-m", "pytest", "-q", "-p", "no:cacheprovider", name)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\d\d? passed", done.stdout)
