"""What was acknowledged is there, after kill -9 at any moment and after a full disk."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from gateway_log.reader import LogReader, to_event
from gateway_log.verify import faults

pytestmark = pytest.mark.usefixtures("processes")

HEAD = """
import asyncio, json, resource, signal, sys
from pathlib import Path
from gateway_core.contract.clock import SystemClock
from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import StorageError
from gateway_core.contract.event import Event
from gateway_core.config.registry import Registry
from gateway_log.channel import LogChannel
from gateway_log.config import LogConfig

async def opened():
    channel = LogChannel(LogConfig(), BuildContext("c", Path(sys.argv[1]), SystemClock(), Registry(), broker="default"))
    await channel.start(None)
    await channel.open()
    return channel

def append(channel, events):
    answer = asyncio.get_running_loop().create_future()
    channel.append(events, answer.set_result)
    return answer
"""

APPENDER = (
    HEAD
    + """
async def client(channel, name):
    for n in range(10**9):
        ids = [f"{sys.argv[2]}-{name}-{n}-{i}" for i in range(1 + n % 3)]
        assert await append(channel, [Event({"id": i}, i.encode() * 50) for i in ids]) is None
        sys.stdout.write("".join(i + "\\n" for i in ids))
        sys.stdout.flush()

async def main():
    channel = await opened()
    await asyncio.gather(*(client(channel, n) for n in range(8)))

asyncio.run(main())
"""
)

FULL = (
    HEAD
    + """
async def main():
    channel = await opened()
    good, bad = 0, 0
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
    while bad < 3:
        errors = await asyncio.gather(*(append(channel, [Event({"id": "x"}, bytes(20_000))]) for _ in range(4)))
        good += errors.count(None)
        bad += sum(isinstance(e, StorageError) for e in errors)
    full = channel.info()["writable"]
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    while not channel.info()["writable"]:  # it tries by itself
        await asyncio.sleep(0.01)
    error = await append(channel, [Event({"id": "last"}, b"")])
    await channel.stop()
    print(json.dumps({"good": good, "writable_when_full": full, "after": error}))

asyncio.run(main())
"""
)


def stored_ids(folder: Path) -> list[str]:
    with LogReader(folder) as reader:
        events = [to_event(0, row) for row in reader.read(0, 1)]
    assert all(e.data == e.attributes["id"].encode() * 50 for e in events)
    return [e.attributes["id"] for e in events]


@pytest.mark.spec("DP-07", "BR-18")
def test_what_was_acknowledged_survives_kill(tmp_path: Path) -> None:
    acknowledged: list[str] = []
    for life in range(5):
        child = subprocess.Popen(
            [sys.executable, "-c", APPENDER, str(tmp_path), str(life)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        acknowledged.append(child.stdout.readline().strip())  # it works
        time.sleep(random.uniform(0, 0.3))
        child.send_signal(signal.SIGKILL)
        rest = child.stdout.read()
        child.stdout.close()
        child.wait()
        acknowledged += rest.splitlines()[: rest.count("\n")]  # the last line may be torn
    folder = tmp_path / "log" / "default"
    ids = stored_ids(folder)
    assert len(ids) == len(set(ids))
    assert set(acknowledged) <= set(ids)
    assert len(acknowledged) > 5
    assert list(faults(folder)) == []


@pytest.mark.spec("DP-07")
def test_a_full_disk_is_told_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    child = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, timeout=60, check=True
    )
    report = json.loads(child.stdout)
    assert report["writable_when_full"] is False
    assert report["after"] is None
    with LogReader(tmp_path / "log" / "default") as reader:
        ids = [to_event(0, row).attributes["id"] for row in reader.read(0, 1)]
    assert report["good"] > 0
    assert ids == ["x"] * report["good"] + ["last"]
