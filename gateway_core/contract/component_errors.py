"""Errors that a component raises: as one line of text, counted, and logged at a limited rate.

Nothing else of the gateway stops because a component raised. The log names the component by its path in the config.
"""

from __future__ import annotations

import logging
from time import monotonic

from .one_line import one_line

_log = logging.getLogger("tidegate.plugins")

LOG_EVERY_S = 10.0
"""A component's errors are logged at most this often, with the number of errors in between."""


def text_of_error(error: BaseException) -> str:
    """What a plugin raised, in one line."""
    try:
        said = one_line(error)
    except Exception:
        said = ""  # its `__str__` raises as well
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _place_of(error: BaseException | None) -> str:
    """Where it was raised: the plugin's file and line."""
    trace = error.__traceback__ if error is not None else None
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f" (at {trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno})"


class Errors:
    """Counts the errors of one component, and logs them at a bounded rate. `owner` is its place in the config."""

    __slots__ = ("_silent", "_until", "count", "last", "owner")

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.count = 0
        self.last: str | None = None
        self._until = 0.0
        self._silent = 0

    def note(self, what: str, error: BaseException) -> str:
        """Counts one; `what` says what became of the event. Returns the error's text."""
        self.count += 1
        self.last = text = text_of_error(error)
        self.warn(f"raised {text}; {what}", error)
        return text

    def warn(self, text: str, error: BaseException | None = None) -> None:
        """Logs it, unless something was logged a moment ago."""
        now = monotonic()
        if now < self._until:
            self._silent += 1
            return
        self._until = now + LOG_EVERY_S
        more = f" ({self._silent} more since the last message)" if self._silent else ""
        self._silent = 0
        # an error's text may hold what strangers sent: a traceback only at the level debug
        whole = error if _log.isEnabledFor(logging.DEBUG) else None
        _log.error("%s %s%s%s", self.owner, text, _place_of(error), more, exc_info=whole)
