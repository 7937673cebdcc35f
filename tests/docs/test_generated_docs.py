"""The generated reference pages are what the code says now."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_reference_pages_are_up_to_date() -> None:
    done = subprocess.run([sys.executable, "tools/docs.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_link_between_pages_leads_somewhere() -> None:
    broken = []
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in _links(page.read_text()):
            path, _, heading = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            if not file.exists():
                broken.append(f"{page.relative_to(ROOT)}: {target}: no such file")
            elif heading and heading not in _anchors(file.read_text()):
                broken.append(f"{page.relative_to(ROOT)}: {target}: no such heading")
    assert not broken, "\n".join(broken)


def _links(text: str) -> list[str]:
    pieces = text.split("](")[1:]
    targets = [piece.partition(")")[0] for piece in pieces]
    return [t for t in targets if "://" not in t and not t.startswith("mailto:")]


def _anchors(text: str) -> set[str]:
    headings = [line.lstrip("#").strip() for line in text.splitlines() if line.startswith("#")]
    return {"".join(c for c in h.lower().replace(" ", "-") if c.isalnum() or c in "-_") for h in headings}
