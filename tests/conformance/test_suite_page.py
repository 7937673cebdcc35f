"""What docs/howto/test-a-plugin.md shows works as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("processes")

HOWTO = Path(__file__).parents[2] / "docs" / "howto"
BLOCKS = dict(re.findall(r"```python\n# (\S+)\n(.*?)```", (HOWTO / "test-a-plugin.md").read_text(), re.DOTALL))
UDP = dict(re.findall(r"```python\n# (\S+)\n(.*?)```", (HOWTO / "write-a-plugin.md").read_text(), re.DOTALL))

UPPER = """
from gateway_core.contract.component import Component, Config
from gateway_core.contract.event import text_of
from gateway_core.contract.hookspecs import hookimpl
from gateway_core.contract.interfaces import Filter


class UpperConfig(Config):
    attribute: str


def build(config, context):
    return Filter(lambda event: text_of(event.attributes.get(config.attribute, "")).isupper())


@hookimpl
def gateway_filters():
    return [Component("upper", "Matches upper case.", UpperConfig, build)]
"""


@pytest.mark.parametrize("faulty", [False, True])
def test_its_suites_pass_and_find_a_fault_of_each(tmp_path: Path, faulty: bool) -> None:
    upper = UPPER.replace(".isupper()", ".isupper(), exact=(('type', 'x'),)") if faulty else UPPER
    udp = UDP["tidegate_udp.py"]
    if faulty:
        udp = udp.replace("event_json.structured(event)", "event_json.structured(event.with_attributes(id='x'))")
    modules = {**BLOCKS, "tidegate_upper.py": upper, "tidegate_udp.py": udp}
    for name, text in modules.items():
        (tmp_path / name).write_text(text)
    info = tmp_path / "tidegate_page-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tidegate-page\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text("[tidegate]\nudp = tidegate_udp\nupper = tidegate_upper\n")
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_upper.py", "test_udp_suite.py"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == (1 if faulty else 0), done.stdout + done.stderr
    if not faulty:
        assert "28 passed" in done.stdout
    else:
        assert {"TestUpper", "TestUdpSink"} <= set(
            re.findall(r"^FAILED test_\w+\.py::(\w+)", done.stdout, re.MULTILINE)
        )


def test_its_loop_over_the_vectors_runs() -> None:
    blocks = re.findall(r"```python\n(?!#)(.*?)```", (HOWTO / "test-a-plugin.md").read_text(), re.DOTALL)
    done = subprocess.run([sys.executable, "-c", blocks[0]], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "escapes <Event" in done.stdout
