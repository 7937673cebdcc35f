"""What the gateway would do with an event, for pages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gateway_api.roles import Role
from gateway_api.routes import Problem
from gateway_inspect.explain import explain_text, sources_of

from gateway_core.contract.topology import Topology

from .config import HIDDEN, HideConfig


def explained(text: str, built: Topology, broker: str | None = None, trigger: str | None = None) -> dict[str, Any]:
    """The explanation of an event in JSON (`explain_text`). Raises `Problem` if the text is none."""
    try:
        return explain_text(text.encode(), built, sources_of(built), broker, trigger)
    except (ValueError, RecursionError) as e:
        raise Problem(422, f"this is no event in JSON: {e}") from e


def without_values(clause: Mapping[str, Any], hides: HideConfig, role: Role | None) -> dict[str, Any]:
    """A clause without what the event has there, which may be hidden. The text of one that is about a hidden attribute,
    or about hidden data, is hidden too: if it holds, it says what the event has."""
    kept = {name: value for name, value in clause.items() if name not in ("found", "parts")}
    names = [name for name in hides.attributes if hides.hides_attribute(name, role)]
    if any(re.search(rf"(?<![a-z0-9]){re.escape(name)}(?![a-z0-9])", kept["text"], re.IGNORECASE) for name in names):
        kept["text"] = HIDDEN
    if kept.pop("data", False) and hides.hides_data(role):
        kept["text"] = HIDDEN
    if "parts" in clause:
        kept["parts"] = [without_values(part, hides, role) for part in clause["parts"]]
    return kept
