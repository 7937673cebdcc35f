"""The picture in README.md: its pipeline, as `tidegate graph` draws it."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from gateway_inspect.graph.svg import svg
from gateway_inspect.graph.topology import from_document
from typer.testing import CliRunner

from gateway_core.cli.app import app

README = Path(__file__).parents[1] / "README.md"


def picture() -> str:
    """The SVG. Paths are relative to the gateway's directory, as in the config."""
    config = README.read_text().split("```yaml\n")[1].split("```")[0]
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            Path("tidegate.yaml").write_text(config)
            done = CliRunner().invoke(app, ["graph", "tidegate.yaml", "--format", "json"])
            here = os.getcwd()
        finally:
            os.chdir(before)
    if done.exit_code:
        raise RuntimeError(f"README.md: `tidegate graph` fails on the config there:\n{done.output}")
    return svg(from_document(json.loads(done.output.replace(f"file://{here}/", ""))))
