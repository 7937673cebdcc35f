"""Places in a text that are filled when a config is loaded: `${NAME}`, `${NAME:-default}`, `${secret:NAME}`."""

from __future__ import annotations

import re
from collections.abc import Iterator

_PLACE = re.compile(r"\$(\$\{|\{([^{}]*)\}|\{)")


def places(text: str) -> Iterator[str]:
    """The text between the braces, "" for a brace that is not closed. `$${` is an escape, not a placeholder."""
    for found in _PLACE.finditer(text) if "$" in text else ():
        if found[1] != "${":
            yield found[2] or ""
