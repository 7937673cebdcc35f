"""Files that go while a gateway runs, or after it was killed."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from gateway_core.errors import StartError, StorageError

pytestmark = [pytest.mark.anyio, pytest.mark.spec("SAFE-D08")]


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
    with pytest.raises(StartError, match=r"readers/spark.json can't be used.* run `tidegate log repair"):
        channel.attach_reader("spark", log.Subscriber().filter)
