"""Faults in the reader that a fuzzer has to find: no seed provokes them."""

from __future__ import annotations

import re
from typing import Any

from gateway_http.reader import RequestReader

RARE = re.compile(rb"[~!$'();@]")
"""Bytes that no seed has in its target. One of them is enough: a slow machine makes few tries, and finding two would be
luck."""
_on_url = RequestReader.on_url


def plant(kind: str) -> None:
    """Makes a request hang, or crash, whose target holds a rare byte."""

    def on_url(self: Any, part: bytes) -> None:
        _on_url(self, part)
        if RARE.search(self._target):
            while kind == "hang":
                pass
            raise ZeroDivisionError

    RequestReader.on_url = on_url  # type: ignore[method-assign]
