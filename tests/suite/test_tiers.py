"""A test starts no more than its tier allows."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

import pytest


@pytest.mark.parametrize(
    "start",
    [
        lambda: subprocess.Popen(["true"]),
        lambda: os.posix_spawn("/bin/true", ["true"], {}),
        lambda: os.system("true"),
        os.fork,
    ],
    ids=["Popen", "posix_spawn", "system", "fork"],
)
def test_a_unit_test_starts_no_process(start: Callable[[], object]) -> None:
    with pytest.raises(AssertionError, match="give it the fixture `processes`"):
        start()
