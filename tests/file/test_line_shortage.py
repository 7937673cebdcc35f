"""Lines that can't be written because this machine is short of something: that is no attempt."""

from __future__ import annotations

import errno

import anyio
import pytest
from gateway_file.line_writer import LineWriter

from gateway_core.contract.clock import SystemClock
from gateway_core.contract.interfaces import Outcome

pytestmark = [pytest.mark.anyio, pytest.mark.spec("SAFE-34")]


class Failing:
    """A target whose next write raises `error`."""

    def __init__(self, error: Exception) -> None:
        self.error: Exception | None = error

    def open(self) -> None: ...
    def close(self) -> None: ...
    def write(self, data: bytes) -> None:
        error, self.error = self.error, None
        if error is not None:
            raise error


@pytest.mark.parametrize(
    ("error", "local"),
    [
        (OSError(errno.EMFILE, "Too many open files"), True),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), True),
        (MemoryError(), True),
        (OSError(errno.EIO, "Input/output error"), False),
        (ValueError("no"), False),
    ],
)
async def test_a_shortage_is_told_from_a_fault_of_the_file(error: Exception, local: bool) -> None:
    writer = LineWriter(Failing(error), SystemClock())
    await writer.start()
    outcomes: list[Outcome] = []
    for count in (1, 2):
        writer.write(b"{}", 10.0, outcomes.append)
        with anyio.fail_after(60):
            while len(outcomes) < count:  # noqa: ASYNC110
                await anyio.sleep(0.001)
    await writer.stop()
    assert [(o.delivered, o.local) for o in outcomes] == [(False, local), (True, False)]
    assert outcomes[0].retry
