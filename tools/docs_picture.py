"""The picture in README.md: its pipeline, as `tidegate graph` draws it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from gateway_inspect.graph.svg import svg
from gateway_inspect.graph.topology import from_document

README = Path(__file__).parents[1] / "README.md"


def picture() -> str:
    """The SVG. Paths are relative to the gateway's directory, as in the config."""
    config = README.read_text().split("```yaml\n")[1].split("```")[0]
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder).resolve()
        (here / "tidegate.yaml").write_text(config)
        command = [sys.executable, "-P", "-m", "gateway_core.cli", "graph", "tidegate.yaml", "--format", "json"]
        done = subprocess.run(command, cwd=here, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"README.md: `tidegate graph` fails on the config there:\n{done.stdout}{done.stderr}")
    return svg(from_document(json.loads(done.stdout.replace(f"file://{here}/", ""))))
