"""Puts finished runs into the tree: `python -m tests.soak.publish FOLDER…`, the last one with its plots.

`tests/soak/runs.json` then has their figures, in place of those that were there (with `--add`: after them);
`make docs` writes them into `docs/discussion/proof.md`.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

from tests.soak.report import CHARTS, PUBLISHED

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
RUNS = Path(__file__).with_name("runs.json")


def publish(folders: list[Path], *, add: bool) -> None:
    """Copies figures and plots; `add` keeps the runs that are there. Raises `OSError` if a folder has no report."""
    runs = json.loads(RUNS.read_text()) if add else []
    runs += [json.loads((folder / "figures.json").read_text()) for folder in folders]
    RUNS.write_text(json.dumps(runs, indent=1, ensure_ascii=False) + "\n")
    for name in PUBLISHED:
        assert name in CHARTS
        shutil.copy(folders[-1] / f"{name}.svg", IMAGES / f"soak-{name}.svg")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.soak.publish")
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER", help="of a finished run")
    parser.add_argument("--add", action="store_true", help="keep the runs that are there: of the same tree")
    a = parser.parse_args()
    publish(a.folders, add=a.add)
