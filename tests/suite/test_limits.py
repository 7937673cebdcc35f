"""A test's time limit ends it, whatever runs it."""

from __future__ import annotations

import re

import pytest

pytest_plugins = ["pytester"]

CASES = """
import asyncio, time, uvloop

async def idle():
    await asyncio.sleep(30)

async def busy():
    end = time.monotonic() + 30
    while time.monotonic() < end:
        await asyncio.sleep(0)

async def busy_child():
    child = asyncio.create_task(busy())
    await asyncio.sleep(30)

async def stubborn():
    while True:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            pass

async def stubborn_child():
    child = asyncio.create_task(stubborn())
    await asyncio.sleep(30)

def test_no_loop(): time.sleep(30)
def test_idle(): uvloop.run(idle())
def test_busy(): uvloop.run(busy())
def test_busy_child(): uvloop.run(busy_child())
def test_stubborn_child(): uvloop.run(stubborn_child())
def test_busy_child_of_asyncio(): asyncio.run(busy_child())
"""


@pytest.mark.usefixtures("processes", "real_time")
def test_the_limit_ends_a_test_in_any_loop(pytester: pytest.Pytester) -> None:
    """uvloop logs what a signal handler raises, asyncio stores it in the task that ran; both let `SystemExit` out."""
    pytester.makepyfile(test_cases=CASES)
    plugins = ("-p", "tests.limits", "-p", "no:cacheprovider")
    ran = pytester.runpytest_subprocess(*plugins, "--timeout", "0.5", "--durations", "0", "-vv")
    ran.assert_outcomes(failed=6)
    assert len(re.findall(r"^FAILED .* - tests.limits.TimeLimit: ", ran.stdout.str(), re.MULTILINE)) == 6
    durations = [float(seconds) for seconds in re.findall(r"([\d.]+)s call", ran.stdout.str())]
    assert max(durations) < 29
