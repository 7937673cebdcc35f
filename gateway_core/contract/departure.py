"""Whether the sender of an event still waits for its answer.

A source that can tell passes `done` as a bound method of an object with a method `left`. What wraps `done` on its way
passes that on with `keeping`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from .interfaces import Accepted

Left = Callable[[], bool]
"""True once the sender does not wait any more, as far as can be known."""


def left_of(done: Accepted) -> Left | None:
    """A function that tells whether the sender behind `done` has left; None if nobody can tell."""
    found: Left | None = getattr(getattr(done, "__self__", None), "left", None) or getattr(done, "left", None)
    return found


def keeping(done: Accepted, wrapper: Accepted) -> Accepted:
    """`wrapper`, with what `done` knows of its sender."""
    left = left_of(done)
    if left is None:
        return wrapper
    known = partial(wrapper)
    known.left = left  # type: ignore[attr-defined]
    return known
