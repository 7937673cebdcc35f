"""Faults in the reader that a fuzzer has to find: no seed provokes them."""

from __future__ import annotations

from typing import Any

from gateway_http.reader import RequestReader

_on_url = RequestReader.on_url


def plant(kind: str) -> None:
    """Makes a request whose target begins with `/~` hang, or crash."""

    def on_url(self: Any, part: bytes) -> None:
        _on_url(self, part)
        if self._target.startswith(b"/~"):
            while kind == "hang":
                pass
            raise ZeroDivisionError

    RequestReader.on_url = on_url  # type: ignore[method-assign]
