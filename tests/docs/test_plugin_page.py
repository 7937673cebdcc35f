"""The plugins that docs/howto/write-a-plugin.md and test-a-plugin.md make work as the pages say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

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
    points["upper"] = "tidegate_upper"
    assert 'upper = "tidegate_upper"' in TESTS
    (info / "entry_points.txt").write_text("[tidegate]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()))
    return tmp_path


def run(package: Path, *command: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([sys.executable, *command], cwd=package, env=env, capture_output=True, text=True)


def test_the_page_has_a_module_an_entry_point_and_a_test() -> None:
    assert set(BLOCKS) == {"tidegate_udp.py", "pyproject.toml", "test_udp.py"}
    assert set(MORE) == {"tidegate_upper.py", "test_upper.py", "test_udp_suite.py"}


@pytest.mark.slow
@pytest.mark.spec("CARD-05")
def test_its_plugin_is_found_by_its_entry_point(package: Path) -> None:
    listed = run(package, "-m", "gateway_core.cli", "plugins", "--json")
    assert listed.returncode == 0, listed.stderr
    assert '"tidegate-udp 0.1.0"' in listed.stdout
    (package / "wrong.yaml").write_text("bridges: {b: {source: http, sink: {udp: {host: h, port: 0}}}}\n")
    checked = run(package, "-m", "gateway_core.cli", "check", "wrong.yaml")
    assert checked.returncode == 1
    assert "port" in checked.stdout + checked.stderr


@pytest.mark.slow
def test_its_own_test_passes(package: Path) -> None:
    done = run(package, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_udp.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


@pytest.mark.slow
def test_its_config_has_no_faults(package: Path) -> None:
    (package / "udp.yaml").write_text(PAGE.split("```yaml\n")[1].split("```")[0])
    checked = run(package, "-m", "gateway_core.cli", "check", "udp.yaml")
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["test_upper.py", "test_udp_suite.py"])
def test_the_suites_of_the_page_pass(package: Path, name: str) -> None:
    done = run(package, "-m", "pytest", "-q", "-p", "no:cacheprovider", name)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\d\d? passed", done.stdout)
