"""The acknowledgements of one consumer."""

from __future__ import annotations

import asyncio

from . import wire
from .link import Channel, Link


class Acks:
    """Acknowledges messages at the end of the loop's turn: with one frame all from the oldest on, others one by one."""

    def __init__(self, link: Link, channel: Channel) -> None:
        self._link = link
        self._number = channel.number
        self._loop = asyncio.get_running_loop()
        self._open: dict[int, bool] = {}  # delivery tag: whether it is settled; in the order of arrival
        self._settled: list[int] = []

    def delivered(self, tag: int) -> None:
        """A message came."""
        self._open[tag] = False

    def ack(self, tag: int) -> None:
        """The message is safe."""
        if not self._settled:
            self._loop.call_soon(self.flush)
        self._open[tag] = True
        self._settled.append(tag)

    def reject(self, tag: int) -> None:
        """The queue shall drop the message, or move it to its dead-letter exchange."""
        del self._open[tag]
        self._link.write(wire.nack(self._number, tag, requeue=False))

    def flush(self) -> None:
        """Sends what is due."""
        settled, self._settled = self._settled, []
        pending = self._open
        last = 0
        for tag, done in pending.items():
            if not done:
                break
            last = tag
        if last:
            for tag in list(pending):
                del pending[tag]
                if tag == last:
                    break
            self._link.write(wire.ack(self._number, last, True))
        for tag in settled:
            if tag > last:
                del pending[tag]
                self._link.write(wire.ack(self._number, tag, False))
