"""An event loop whose time passes at once: where nothing is left to do it jumps to the next timer."""

from __future__ import annotations

import asyncio
import selectors
from typing import Any


class JumpingLoop(asyncio.SelectorEventLoop):
    """For tests without input and output: `("asyncio", {"loop_factory": JumpingLoop})` as `anyio_backend`."""

    def __init__(self) -> None:
        self._passed = 0.0
        super().__init__(_Selector(self))

    def time(self) -> float:
        return self._passed

    def jump(self, seconds: float) -> None:
        """Time passes."""
        self._passed += seconds


class _Selector(selectors.SelectSelector):
    def __init__(self, loop: JumpingLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is not None and timeout > 0:
            self._loop.jump(timeout)
            timeout = 0
        return super().select(timeout)
