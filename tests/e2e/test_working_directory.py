"""Files in the working directory never stand in for modules: users have a `types.py` or a `queue.py` of their own."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
from gateway_testing import GatewayProcess, Subscriber

from tests.processes import descendants

from .one_trigger import config_for, numbers, send
from .test_workers import both

ROOT = Path(__file__).resolve().parents[2]
MODULES = ("types", "queue", "json", "random", "socket", "gateway_workers", "anyio")


@pytest.mark.usefixtures("processes")
@pytest.mark.spec("SAFE-07")
def test_a_worker_starts_beside_files_with_the_names_of_modules(tmp_path: Path) -> None:
    with (
        Subscriber() as subscriber,
        GatewayProcess(config_for(subscriber), tmp_path, None, "--workers", "2") as gateway,
    ):
        gateway.wait_until(lambda: both(gateway), what="two workers")
        for name in MODULES:
            (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name}.py of the working directory')\n")
        before = descendants(gateway.pid)
        os.kill(min(before), signal.SIGKILL)
        gateway.wait_until(lambda: len(descendants(gateway.pid) - before) == 1 and both(gateway), what="a new one")
        send(gateway, range(20))
        gateway.wait_until(lambda: numbers(subscriber) == set(range(20)), what="all events")


def test_no_process_is_started_with_the_working_directory_on_its_path() -> None:
    started = re.compile(r'sys\.executable[^\n]*"-m"')
    lines = {
        f"{file.relative_to(ROOT)}: {line.strip()}"
        for folder in ("gateway_core", "plugins", "dev")
        for file in (ROOT / folder).rglob("*.py")
        for line in file.read_text().splitlines()
        if started.search(line) and '"-P", "-m"' not in line
    }
    # tests of plugins' authors may have modules in their folder
    assert {line.partition(":")[0] for line in lines} == {"dev/gateway_testing/process.py"}
