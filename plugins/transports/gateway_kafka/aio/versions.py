"""Which versions of aiokafka the plugin knows from inside. Imports no aiokafka."""

from __future__ import annotations

import os

from .private.names import KNOWN_VERSIONS

VARIABLE = "TIDEGATE_AIOKAFKA"
"""With the value `public` in the environment, every version counts as unknown."""


def unknown(installed: str) -> str:
    """Why private parts of this version of aiokafka are not used, or "" if they are."""
    if os.environ.get(VARIABLE) == "public":
        return f"{VARIABLE} is `public`"
    if installed.startswith(KNOWN_VERSIONS):
        return ""
    return f"Tidegate knows aiokafka {', '.join(f'{known}x' for known in KNOWN_VERSIONS)}, and {installed} is installed"
