"""Feeding at a start, while the log changes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from gateway_log.feeder import Feeder, Tail

from gateway_core.contract.event import Event
from gateway_core.contract.filters import match_all

pytestmark = pytest.mark.anyio


class Damaged:
    """Reads nothing. The first read finds that the main shard is damaged, and another one replaces it."""

    def __init__(self) -> None:
        self.feeder: Feeder
        self.read_of: list[int] = []

    async def read(self, shard: int, start: int, end: int) -> tuple[list[Event], int]:
        if not self.read_of:
            self.feeder.switch(tail(7))
        self.read_of.append(shard)
        return [], end


def tail(shard: int) -> Tail:
    return Tail(shard, 1, 1 if shard == 7 else 5, 1, lambda: None)


@pytest.mark.spec("SAFE-04")
async def test_damage_that_is_found_at_the_start_adds_a_file_and_ends_nothing() -> None:
    chunks: Any = Damaged()
    tails = [tail(0), tail(1)]
    feeder = chunks.feeder = Feeder(tails, chunks, asyncio.get_running_loop())
    everything = match_all()
    feed = feeder.attach("t", everything, lambda event: True)
    for each in tails:
        feeder.add_cursor(feed, everything, each, each.first)
    await feeder.begin()
    await asyncio.sleep(0)
    assert chunks.read_of == [0, 1], "both files that may have events were read"
    assert {shard: (cursor.behind, cursor.next) for shard, cursor in feed.cursors.items()} == {
        0: (False, 5),
        1: (False, 5),
        7: (False, 1),
    }
