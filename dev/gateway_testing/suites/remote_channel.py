"""What a channel at a server must do when the server goes away and comes back."""

from __future__ import annotations

from contextlib import suppress

import anyio

from gateway_core.contract.errors import Overloaded, StorageError
from gateway_core.contract.interfaces import Channel

from .channel import ChannelSuite, Subscription, append, ids
from .kit import Kit, patience_s, until
from .sink import numbered


class RemoteChannelSuite(ChannelSuite):
    """For channels at a server that goes away and comes back. Write also `leave` and `take`; the kit is a good place
    for the server, or for a `gateway_testing.link.Link` to it."""

    async def leave(self, kit: Kit) -> None:
        """Ends all connections to the server, and allows no new one. What it has stored stays."""
        raise NotImplementedError

    async def take(self, kit: Kit) -> None:
        """The server is back."""
        raise NotImplementedError

    async def test_an_outage_loses_nothing_that_was_stored(self, kit: Kit) -> None:
        it = Subscription()
        async with self.opened(kit, it=it) as channel:
            await append(channel, numbered(5))
            await it.until(5)
            await self.leave(kit)
            answers: list[list[BaseException | None]] = [[] for _ in range(5)]
            for n, answer in enumerate(answers):
                channel.append(numbered(1, 5 + n), answer.append)
            await until(lambda: _fault(channel) or all(answers), "the outage to be told")
            await self.take(kit)
            await until(lambda: all(answers), "all appends to be answered")
            assert {len(answer) for answer in answers} == {1}, "answered more than once"
            stored = [5 + n for n, answer in enumerate(answers) if answer == [None]]
            await self._until_stored(channel, 10)
            await until(lambda: not _fault(channel), "`info` to have no fault")
            await it.until_all([*ids(0, 5), *(f"n{n}" for n in stored), "n10"])
            it.ack()

    async def test_what_was_not_acknowledged_in_an_outage_comes_again(self, kit: Kit) -> None:
        before, after = Subscription(), Subscription()
        async with self.opened(kit, it=before) as channel:
            await append(channel, numbered(3))
            await before.until(3)
            await self.leave(kit)
            await self.take(kit)
            await self._until_stored(channel, 3)
            await before.until_all(["n3"])
            before.ack(next(event.position for event in before.events if event.attributes["id"] == "n0"))
        async with self.opened(kit, it=after):
            await after.until_all(ids(1, 4))

    async def test_a_stop_ends_while_the_server_is_away(self, kit: Kit) -> None:
        answers: list[BaseException | None] = []
        async with self.opened(kit, it=Subscription()) as channel:
            await append(channel, numbered(1))
            await self.leave(kit)
            channel.append(numbered(1, 1), answers.append)
            with anyio.move_on_after(patience_s()) as limit:
                await channel.stop()
            assert not limit.cancelled_caught, f"the stop did not end within {patience_s():g} s"
            assert len(answers) == 1, "a stop leaves no append without an answer"
        await self.take(kit)
        again = Subscription()
        async with self.opened(kit, it=again):
            await again.until_all(["n0"] if answers[0] is not None else ids(0, 2))

    async def _until_stored(self, channel: Channel, number: int) -> None:
        """Appends an event until it is stored: a channel may wait a little before it connects again."""
        with anyio.move_on_after(patience_s()):
            while True:
                with suppress(Overloaded, StorageError):
                    return await append(channel, numbered(1, number))
                await anyio.sleep(0.05)
        raise AssertionError(f"nothing was stored within {patience_s():g} s after the server came back")


def _fault(channel: Channel) -> bool:
    """Whether it says that something is wrong."""
    info = channel.info()
    return not info["writable"] or bool(info.get("error"))
