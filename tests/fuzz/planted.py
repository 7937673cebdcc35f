"""Faults in the reader that a fuzzer has to find: they lie behind the right bytes, one by one."""

from __future__ import annotations

from typing import Any

from gateway_http.reader import RequestReader

_on_url = RequestReader.on_url


def plant(kind: str) -> None:
    """Makes a request whose target begins with `/hun` hang, or crash."""

    def on_url(self: Any, part: bytes) -> None:
        _on_url(self, part)
        if _begins(self._target):
            while kind == "hang":
                pass
            raise ZeroDivisionError

    RequestReader.on_url = on_url  # type: ignore[method-assign]


def _begins(target: bytes) -> bool:
    # each step is a branch of its own, as in real code: coverage leads from one to the next
    if target[1:2] == b"h":  # noqa: SIM102
        if target[2:3] == b"u":  # noqa: SIM102
            if target[3:4] == b"n":
                return True
    return False
