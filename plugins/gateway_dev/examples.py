"""For each server the config of a gateway that uses it, as `tidegate dev` shows it: `URL` is the server's address."""

from __future__ import annotations

EXAMPLES: dict[str, str] = {}
