"""What happens to a log in a run: lives, each a list of acts and an end, drawn from a seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal

Crash = Literal["process", "power", "clean"]


@dataclass(frozen=True)
class Act:
    """What happens next; the numbers say how much of it."""

    name: str
    number: int = 0
    size: int = 0


@dataclass(frozen=True)
class Life:
    """Acts, and how it ends: at this step of the disk (0: after the last act), in this way."""

    acts: tuple[Act, ...]
    crash: Crash
    stop_at: int = 0


def drawn(random: Random, *, faulty: bool, storm: bool = False) -> Life:
    """A life. In a storm, many writes and syncs fail."""
    weights = {"append": 10, "burst": 3, "ack": 8, "room": 2, "flush": 4, "wait": 3, "remember": 1, "read": 3, "old": 1}
    if faulty:
        weights |= {"write": 1, "sync": 1, "full": 1, "space": 2}
    if storm:
        weights |= {"write": 2, "sync": 5, "full": 2, "space": 3, "remember": 5, "read": 6, "old": 3}
    names = random.choices(list(weights), list(weights.values()), k=random.randrange(4, 25))
    acts = tuple(Act(name, random.randrange(1, 6), random.choice((10, 10, 300, 5000, 40_000))) for name in names)
    crash: Crash = random.choice(("process", "power", "power", "clean"))
    stop_at = 0 if crash == "clean" else random.choice((0, random.randrange(1, 400)))
    return Life(acts, crash, stop_at)
