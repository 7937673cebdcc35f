"""Puts finished runs into the tree: `python -m tests.soak.publish FOLDER…`, the last one with its plots.

`tests/soak/runs.json` then has their figures, in place of those that were there; `make docs` writes them into
`docs/discussion/proof.md`.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from tests.soak.report import CHARTS, PUBLISHED

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"


def publish(folders: list[Path]) -> None:
    """Copies figures and plots. Raises `OSError` if a folder has no report."""
    runs = [json.loads((folder / "figures.json").read_text()) for folder in folders]
    Path(__file__).with_name("runs.json").write_text(json.dumps(runs, indent=1, ensure_ascii=False) + "\n")
    for name in PUBLISHED:
        assert name in CHARTS
        shutil.copy(folders[-1] / f"{name}.svg", IMAGES / f"soak-{name}.svg")


if __name__ == "__main__":
    publish([Path(folder) for folder in sys.argv[1:]])
