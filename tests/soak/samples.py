"""What a soak measures every few seconds, from outside: memory, descriptors, threads, sizes, lag."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from tests.soak.world import World

Sample = dict[str, float]


def sample(world: World) -> Sample:
    """Numbers by name, at `t` seconds."""
    found: Sample = {"t": round(world.elapsed, 1)}
    workers = world.workers()
    for index, pid in enumerate(sorted(workers)):
        found |= {f"worker {index}: {name}": value for name, value in _process(pid).items()}
    for name, owner in (("supervisor", world.storm.pid), ("steady", world.steady.pid)):
        found |= {f"{name}: {key}": value for key, value in _process(owner).items()}
    if world.kafka and world.kafka.pid:
        found |= {f"broker: {key}": value for key, value in _process(world.kafka.pid).items()}
    for table in world.tables:
        for part in ("driver", "jvm"):
            if working := world.spark(table, part):
                found |= {f"{part} {table}: {key}": value for key, value in _process(working).items()}
    found["log: MB"] = _size(world.disk.where / "data" / "log") / 1e6
    found["steady log: MB"] = _size(world.folder / "steady" / "data" / "log") / 1e6
    for name in ("storm", "steady"):
        if (status := world.status(name)) is None:
            continue
        for trigger in status["triggers"]:
            reader = trigger.get("reader") or {}
            found[f"lag {name} {trigger['name']}"] = float(reader.get("lag", trigger["lag"]) or 0)
            if reader:
                found[f"rows {trigger['name']}"] = float(reader["rows"])
    found["accepted"] = float(sum(account.said_yes for account in world.accounts.values()))
    found["delivered"] = float(sum(account.at["out"].first for account in world.accounts.values()))
    found["on their way"] = float(sum(max(0, account.open) for account in world.accounts.values()))
    return found


def _process(pid: int) -> Sample:
    with suppress(OSError, ValueError, IndexError, KeyError):  # a process that has just ended has no memory
        status = dict(
            line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line
        )
        descriptors = len(os.listdir(f"/proc/{pid}/fd"))
        return {
            "MB": int(status["VmRSS"].split()[0]) / 1024,
            "threads": float(status["Threads"]),
            "descriptors": float(descriptors),
        }
    return {}


def _size(folder: Path) -> int:
    """Bytes of all files below a folder."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.stat(os.path.join(root, name)).st_blocks * 512
    return total
