"""The notebooks of docs: their outputs are those of a run."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docs" / "notebooks" / "flights.ipynb"
LIMIT_BYTES = 300_000


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def texts(notebook: Any) -> list[str]:
    """What each cell printed."""
    return ["".join(o.text for o in cell.outputs if o.output_type == "stream") for cell in code_cells(notebook)]


def pictures(notebook: Any) -> list[int]:
    """How many pictures each cell drew."""
    return [sum("image/png" in o.get("data", {}) for o in cell.outputs) for cell in code_cells(notebook)]


def test_the_outputs_are_there_short_and_of_one_run() -> None:
    stored = nbformat.read(FILE, as_version=4)  # type: ignore[no-untyped-call]
    nbformat.validate(stored)  # type: ignore[no-untyped-call]
    assert FILE.stat().st_size < LIMIT_BYTES
    assert [cell.execution_count for cell in code_cells(stored)] == list(range(1, len(code_cells(stored)) + 1))
    assert sum(pictures(stored)) == 3
    assert not re.search(r"/(tmp|home|root|var|usr|Users)/", "".join(texts(stored))), "a path of the machine it ran on"


@pytest.mark.area(name="notebook")
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("own_spark")
def test_a_run_gives_the_stored_outputs() -> None:
    spec = importlib.util.spec_from_file_location("notebook_tool", ROOT / "tools" / "notebook.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    stored = nbformat.read(FILE, as_version=4)  # type: ignore[no-untyped-call]
    found = tool.run(FILE)
    remedy = "run `make notebook` and commit what it writes"
    assert texts(found) == texts(stored), remedy
    assert pictures(found) == pictures(stored), remedy
