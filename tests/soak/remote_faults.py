"""Faults of subscriber and dead letter."""

from __future__ import annotations

import random
import signal
import time

from tests.soak.ledger import Control
from tests.soak.world import Play, World


def receiver(index: int, number: signal.Signals) -> Play:
    def play(world: World, chance: random.Random) -> str:
        receiver = world.receivers[index]
        seconds = chance.choice([0.5, 2, 6])
        if number == signal.SIGKILL:
            receiver.kill()
            time.sleep(seconds)
            receiver.start()
            return f"away for {seconds:g} s"
        receiver.send(signal.SIGSTOP)
        time.sleep(seconds)
        receiver.send(signal.SIGCONT)
        return f"{seconds:g} s"

    return play


def mood(index: int, mood: int, most_s: float) -> Play:
    def play(world: World, chance: random.Random) -> str:
        seconds = chance.uniform(0.2, most_s)
        world.control.set_mood(index, mood)
        time.sleep(seconds)
        world.control.set_mood(index, Control.WELL)
        return f"{seconds:.1f} s"

    return play


def cut_subscriber(world: World, chance: random.Random) -> str:
    after = chance.randrange(1, 3_000)
    world.behind.cut(after)
    time.sleep(0.5)
    world.behind.heal()
    return f"after {after} bytes"


def reset_subscriber(world: World, chance: random.Random) -> str:
    world.behind.reset()
    return "RST on every connection"
