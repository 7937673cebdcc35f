"""What the gateway would do with an event, for pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway_admin.routes import Problem
from gateway_inspect.explain import explain_text, sources_of

from gateway_core.runtime.build import Built


def explained(text: str, built: Built, broker: str | None = None, trigger: str | None = None) -> dict[str, Any]:
    """The explanation of an event in JSON (`explain_text`). Raises `Problem` if the text is none."""
    try:
        return explain_text(text.encode(), built, sources_of(built), broker, trigger)
    except (ValueError, RecursionError) as e:
        raise Problem(422, f"this is no event in JSON: {e}") from e


def without_values(clause: Mapping[str, Any]) -> dict[str, Any]:
    """A clause without what the event has there, which may be hidden."""
    kept = {name: value for name, value in clause.items() if name not in ("found", "parts")}
    if "parts" in clause:
        kept["parts"] = [without_values(part) for part in clause["parts"]]
    return kept
