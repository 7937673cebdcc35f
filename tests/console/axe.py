"""What axe finds on a page (Deque's rules for WCAG 2.2, A and AA)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import axe_playwright_python  # type: ignore[import-untyped]
from playwright.sync_api import Page

_SCRIPT = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()


def violations(page: Page) -> list[str]:
    """One line for each element that breaks a rule."""
    page.evaluate(_SCRIPT + "\n;0")
    found: dict[str, Any] = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{rule['id']}: {node['html'][:200]} ({node.get('failureSummary', '')[:300]})"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]
