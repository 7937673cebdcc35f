"""A filter that raises in a worker of Spark: the row is kept, as the worker reaches no dead letter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MODULE = """
from gateway_core.contract.component import Component, Config
from gateway_core.contract.hookspecs import hookimpl
from gateway_core.contract.interfaces import Filter


def matches(event):
    if event.attributes["id"] == "bad":
        raise ValueError("no such field")
    return event.attributes["id"] == "wanted"


@hookimpl
def gateway_filters():
    return [Component("moody", "A test's.", Config, lambda config, context: Filter(matches))]
"""
PROGRAM = """
from gateway_spark.source.filters import compiled

matches = compiled('[{"prefix": {"type": "t"}}, {"moody": {}}]', "")
base = {"specversion": "1.0", "source": "/s", "type": "t"}
print([matches((0, 0, 0, None, "", b""), {**base, "id": id}) for id in ("wanted", "bad", "other")])
"""


@pytest.mark.spec("SAFE-25")
@pytest.mark.usefixtures("processes")
def test_a_row_on_which_a_filter_raises_is_kept_and_named_in_the_log(tmp_path: Path) -> None:
    info = tmp_path / "tidegate_moody-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tidegate-moody\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text("[tidegate]\nmoody = tidegate_moody\n")
    (tmp_path / "tidegate_moody.py").write_text(MODULE)
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[True, True, False]"
    assert "no such field" in done.stderr
