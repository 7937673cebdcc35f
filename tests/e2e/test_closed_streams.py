"""A gateway that is started without standard streams, as some daemons' starters do: none of its own files takes their
place, and it runs and stops like any other."""

from __future__ import annotations

from pathlib import Path

import pytest
from gateway_testing import GatewayProcess, Subscriber

from tests.processes import descendants

from .one_trigger import config_for, numbers, send

pytestmark = pytest.mark.usefixtures("processes")


@pytest.mark.spec("SAFE-07")
@pytest.mark.parametrize(
    ("closed", "workers"),
    [
        ("2>&-", 1),
        pytest.param("2>&-", 2, marks=pytest.mark.full),
        pytest.param("<&- >&- 2>&-", 1, marks=pytest.mark.full),
        ("<&- >&- 2>&-", 2),
    ],
)
def test_it_runs_without_them(tmp_path: Path, closed: str, workers: int) -> None:
    with Subscriber() as subscriber:
        gateway = GatewayProcess(config_for(subscriber), tmp_path, None, "--workers", str(workers))
        gateway.launcher = ("/bin/sh", "-c", f'exec "$0" "$@" {closed}')
        with gateway:
            send(gateway, range(10))
            gateway.wait_until(lambda: numbers(subscriber) == set(range(10)), what="all events")
            for pid in (gateway.pid, *descendants(gateway.pid)):
                streams = {Path(f"/proc/{pid}/fd/{fd}").resolve() for fd in range(3)}
                assert streams <= {Path("/dev/null"), gateway.stderr.resolve()}
            assert gateway.stop() == 0
