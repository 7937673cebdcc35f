"""Runs the notebooks of docs/notebooks and rewrites their outputs (`make notebook`)."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
LIMIT_S = 600


def run(file: Path) -> Any:
    """The notebook with the outputs of a run. Raises `nbclient.exceptions.CellExecutionError`."""
    notebook = nbformat.read(file, as_version=4)  # type: ignore[no-untyped-call]
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    with TemporaryDirectory() as folder:
        # what Jupyter and matplotlib keep of a user is none of a notebook's business
        os.environ |= {"IPYTHONDIR": folder, "JUPYTER_RUNTIME_DIR": folder, "JUPYTER_PLATFORM_DIRS": "1"}
        resources = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=LIMIT_S, startup_timeout=LIMIT_S, resources=resources).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # when it ran
        if cell.cell_type == "code":
            cell.outputs = [o for o in cell.outputs if o.get("name") != "stderr"]
    notebook.metadata.language_info = {"name": "python"}
    return notebook


def main() -> int:
    for file in sorted(FOLDER.glob("*.ipynb")):
        file.write_text(nbformat.writes(run(file)) + "\n")  # type: ignore[no-untyped-call]
        print(f"written: docs/notebooks/{file.name} ({file.stat().st_size // 1024} kB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
