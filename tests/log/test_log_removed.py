"""Files that go while a gateway runs, or after it was killed."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
from typing import Any

import pytest

from gateway_core.contract.errors import StartError, StorageError

pytestmark = [pytest.mark.anyio, pytest.mark.spec("SAFE-50")]


@pytest.mark.parametrize("what", ["shard-000.db", "shard-000.db-wal", "."])
async def test_nothing_is_accepted_into_files_that_were_removed(log: Any, what: str) -> None:
    subscriber = log.Subscriber(acks=True)
    channel = await log.open({"s": subscriber})
    await log.append(channel, log.events(3))
    shutil.rmtree(log.folder) if what == "." else (log.folder / what).unlink()
    with pytest.raises(StorageError, match=r"was removed while the gateway ran: stop the gateway"):
        await log.append(channel, log.events(1))
    assert channel.info()["writable"] is False
    assert "was removed while the gateway ran" in channel.info()["error"]
    assert len(subscriber.got) == 3


async def test_nothing_is_accepted_beside_a_file_that_was_replaced(log: Any) -> None:
    channel = await log.open()
    await log.append(channel, log.events(3))
    file = log.folder / "shard-000.db"
    shutil.copy(file, file.with_suffix(".copy"))
    file.with_suffix(".copy").rename(file)
    with pytest.raises(StorageError, match="was replaced while the gateway ran"):
        await log.append(channel, log.events(1))


async def test_a_reader_whose_place_is_damaged_is_told_the_way_out(log: Any) -> None:
    channel = await log.open()
    channel.attach_reader("spark", log.Subscriber().filter)
    (log.folder / "readers" / "spark.json").write_text('{"0": ')
    with pytest.raises(StartError, match=r"the reader's offsets in .*/readers/spark.json: .* run `tidegate log repair"):
        channel.attach_reader("spark", log.Subscriber().filter)


CHILD = """
import asyncio, os, signal, sys
from pathlib import Path
from gateway_core.contract.clock import SystemClock
from gateway_core.contract.component import BuildContext
from gateway_core.contract.event import Event
from gateway_core.config.registry import Registry
from gateway_log.channel import LogChannel
from gateway_log.config import LogConfig

async def main():
    channel = LogChannel(LogConfig(), BuildContext("c", Path(sys.argv[1]), SystemClock(), Registry(), broker="default"))
    await channel.start(None)
    await channel.open()
    done = asyncio.get_running_loop().create_future()
    channel.append([Event({"id": "1"}, b"x")], done.set_result)
    await done
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.mark.parametrize("removed", [True, False])
@pytest.mark.usefixtures("processes")
async def test_a_write_ahead_log_that_is_missing_after_a_crash_is_told(
    log: Any, removed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", CHILD, str(log.path))
    assert await child.wait() == -signal.SIGKILL
    if removed:
        (log.folder / "shard-000.db-wal").unlink()
    channel = await log.open()
    assert ("shard-000.db-wal is missing" in caplog.text) is removed
    await log.stop(channel)
    caplog.clear()
    await log.open()
    assert "is missing" not in caplog.text
