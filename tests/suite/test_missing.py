"""A test that can't run here says what is missing, and is neither passed nor skipped."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

CASES = """
from tests.servers_shared import need

def test_as_root(): need(False, "only a superuser can do this")
def test_here(): need(True, "a machine")
"""


@pytest.mark.usefixtures("processes")
def test_what_nobody_can_bring_is_missing_also_where_all_servers_have_to_be(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_cases=CASES)
    plugins = ("-p", "tests.servers_shared", "-p", "no:cacheprovider")
    ran = pytester.runpytest_subprocess(*plugins, "--all-servers")
    assert ran.ret == 0
    ran.stdout.fnmatch_lines(["1 test proves nothing: only a superuser can do this"])
    assert "1 passed, 1 missing" in ran.stdout.str()
