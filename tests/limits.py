"""A pytest plugin: a test's time limit holds in event loops, too.

pytest-timeout raises an exception that asyncio stores in whatever task runs, and that uvloop logs; then the test goes
on. Both let a `SystemExit` out of the loop.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from types import FrameType

import pytest
import pytest_timeout  # type: ignore[import-untyped]


class TimeLimit(SystemExit):
    """The test took longer than its limit."""


def pytest_timeout_set_timer(item: pytest.Item, settings: pytest_timeout.Settings) -> object:
    """As pytest-timeout's own with the method `signal`, except for what is raised."""
    if settings.method != "signal" or threading.current_thread() is not threading.main_thread():
        return None

    def over(signum: int, frame: FrameType | None) -> None:
        pytest_timeout.dump_stacks(item.config.get_terminal_writer())
        raise TimeLimit(f"the test took more than {settings.timeout:g} s")

    def cancel() -> None:
        _stop()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    item.cancel_timeout = cancel  # type: ignore[attr-defined]
    signal.signal(signal.SIGALRM, over)
    # again and again, for what ends a test may hang as well
    signal.setitimer(signal.ITIMER_REAL, settings.timeout, settings.timeout)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A report is written in peace; the fixtures that follow have the whole limit again."""
    limited = call.excinfo is not None and call.excinfo.errisinstance(TimeLimit)
    interval = _stop() if limited else 0.0
    try:
        return (yield)
    finally:
        if interval and call.when != "teardown":
            signal.setitimer(signal.ITIMER_REAL, interval, interval)


def _stop() -> float:
    """Stops the timer; returns its interval."""
    return signal.setitimer(signal.ITIMER_REAL, 0)[1]
