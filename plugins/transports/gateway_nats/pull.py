"""Reads a stream with a durable pull consumer.

A message is *open* from its arrival until `settle`. Open messages outlive a connection: an acknowledgement names the
message, not the connection, so after a reconnect they are acknowledged as before, and a message that the server sends
again while it is open is not taken twice.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection

import anyio
from gateway_transport.held_bytes import MOST_HELD_BYTES
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.js import api
from nats.js.errors import NotFoundError

from gateway_core.contract.capabilities import DeliveryState
from gateway_core.contract.clock import Clock, Timer

from .client import Link
from .settled_ranges import SettledRanges
from .streams import rewound_by

log = logging.getLogger("tidegate.nats")

ACK, NAK, PROGRESS, TERM = b"+ACK", b"-NAK", b"+WPI", b"+TERM"
BATCH = 512
EXPIRES_S = 30
HEARTBEAT_S = 5
SILENT_S = 3 * HEARTBEAT_S
WATCH_S = 2.0
HOLD_POLL_S = 0.25
RETRY_S = 1.0
KEPT = 4096
EXTRA_BYTES = 16 * 1024
"""What the server counts of a message besides what `max_payload` bounds, at most: its subject and where to reply."""
_EXPIRES = EXPIRES_S * 1_000_000_000
_HEARTBEAT = HEARTBEAT_S * 1_000_000_000

Taken = Callable[[Msg, int, int], None]
"""Takes a message: with its sequence number in the stream, and how often it was delivered."""


class Puller:
    """Fetches messages while fewer than `most` are open, and hands each to `take`, on the event loop. They have about
    `most_bytes` at most: nothing is asked for while half of that is open, and each request is for a quarter at most.
    But it is for one message of the largest size that the server takes, at least.

    `stream`     makes or checks the stream, on each new connection, and `consumer` its consumer: (the sequence number
                 at which it starts if it was there before and is gone, None for a new one) -> consumer.
    `first`      whether this is the first of several workers.
    `forget`     is called when the stream is another one than before: its numbers mean nothing any more.
    `api_prefix` the first tokens of JetStream's API.

    Messages that were delivered and not acknowledged before (a gateway crashed) are redelivered only after the
    consumer's `ack_wait`. Unless other clients read too, later messages wait for them, so that they come in order.
    """

    def __init__(
        self,
        link: Link,
        clock: Clock,
        take: Taken,
        *,
        most: int,
        most_bytes: int = MOST_HELD_BYTES,
        first: bool,
        api_prefix: str,
        stream: Callable[[], Awaitable[api.StreamInfo]],
        consumer: Callable[[int | None], Awaitable[api.ConsumerInfo]],
        forget: Callable[[], None],
    ) -> None:
        self._link = link
        self._clock = clock
        self._take = take
        self._most = most
        self._most_bytes = most_bytes
        self._bytes = 0  # of the messages that are open
        self._first = first
        self._batch = min(BATCH, most)
        self._low = self._batch // 2
        self._api = api_prefix
        self._stream = stream
        self._make = consumer
        self._forget = forget
        self._subscription: Subscription | None = None
        self._inbox = ""
        self._next = ""
        self._stream_made = self._made = ""
        self._open: dict[int, tuple[str, int]] = {}  # sequence number -> where to acknowledge, and its bytes
        self._acked: dict[int, str] = {}  # lately
        self._acked_before: dict[int, str] = {}
        self._mine = SettledRanges()
        self._outstanding = 0  # messages that were asked for and have not come
        self._highest = self._pinged_to = 0
        self._repeats_to = 0  # a consumer that was made again sends what is known as if it were new
        self._rewound_by = ""
        self._heard = 0.0
        self._silent = True  # since the last look
        self._ack_wait_s = 30.0
        self._settled_to = self._sent_to = 0  # of all clients, at the last look
        self._held: dict[int, tuple[Msg, int]] | None = None
        self._hold_until = 0.0
        self._stopping = self._current = False  # `_current`: what is open belongs to this connection's stream
        self._ping: Timer | None = None
        self._retry: Timer | None = None
        self.pending = 0
        """Messages in the stream that this consumer has not been sent."""
        self.redelivered = 0
        """Messages that were redelivered, since the start."""

    # -- life -------------------------------------------------------------------------------------------------------

    async def begin(self) -> None:
        """On a new connection: checks stream and consumer, and subscribes. Raises `Rejected`."""
        link = self._link
        stream = await self._stream()
        made = str(stream.created)
        if self._stream_made and made != self._stream_made:
            log.warning("the stream %s is another one than before: what was read of it is dropped", stream.config.name)
            self._reset()
            self._forget()
            consumer = await self._make(1)
        else:
            consumer = await self._make(self._resume_at() if self._stream_made else None)
            if self._made and rewound_by(consumer.config) != self._rewound_by:
                log.warning("the consumer %s was set back: what was read of it is dropped", consumer.name)
                self._reset()
                self._forget()
                consumer = await self._make(1)
            elif self._made and str(consumer.created) != self._made:
                self._repeats_to = self._highest
        self._rewound_by = rewound_by(consumer.config)
        self._stream_made = made
        self._ack_wait_s = consumer.config.ack_wait or 30.0
        self._next = f"{self._api}.CONSUMER.MSG.NEXT.{consumer.stream_name}.{consumer.name}"
        self._consumer = consumer.stream_name, consumer.name
        self._made = str(consumer.created)
        self._inbox = link.nc.new_inbox()
        self._outstanding = 0
        self._heard = self._clock.monotonic()
        self._subscription = await link.nc.subscribe(
            self._inbox, cb=self._received, pending_msgs_limit=0, pending_bytes_limit=0
        )  # no limits: we ask for no more than we take
        self._acknowledge_again()
        self._looked(consumer)
        if not self._stopping and not consumer.num_waiting and (consumer.num_ack_pending or 0) > len(self._open):
            self._held = {}
            self._hold_until = self._clock.monotonic() + self._ack_wait_s + 2
        if self._ping is None:
            self._ping = self._clock.call_later(self._ack_wait_s / 3, self._pings)

    def follow(self, earlier: Puller, to: int) -> None:
        """Takes the place of a closed one of the same consumer, which was set back to this message, or further where
        an earlier one is not settled. What was settled before it is not taken again. Before `begin`."""
        self._mine, self._repeats_to = earlier._mine.before(to), to - 1

    async def run(self) -> None:
        """While connected: asks for messages, and watches the consumer. Ends the connection if it is gone."""
        while self._held is not None:
            await self._release()
        self._pull()
        while True:
            await anyio.sleep(WATCH_S)
            if not self._silent:
                self._heard, self._silent = self._clock.monotonic(), True
            elif self._outstanding and self._clock.monotonic() - self._heard > SILENT_S:
                self._link.end("the server does not answer a request for messages")
                return
            try:
                info = await self._link.js.consumer_info(*self._consumer)
            except NotFoundError:
                self._link.end(f"the consumer {self._consumer[1]} is gone")
                return
            except Exception as e:  # it is only for status; a server that is down is noticed otherwise
                log.debug("no consumer info: %s", e)
                continue
            if str(info.created) != self._made:
                self._link.end(f"the consumer {self._consumer[1]} was deleted and made again")
                return
            self._looked(info)
            self._pull()

    async def stop(self) -> None:
        """Asks for no more, and gives back what comes all the same."""
        self._stopping = True
        if self._subscription is not None and self._link.connected:
            with anyio.move_on_after(2):
                try:
                    await self._subscription.drain()  # type: ignore[no-untyped-call]
                except Exception as e:
                    log.debug("can't unsubscribe: %s", e)
        self._subscription = None

    async def close(self) -> None:
        """After `stop`, once what could be settled is: gives back the rest, for others to take at once."""
        for timer in (self._ping, self._retry):
            if timer is not None:
                timer.cancel()
        self._ping = self._retry = None
        held, self._held = self._held or {}, None
        left = sorted({*self._open, *held})
        if left and self._link.connected:
            await self._forget_requests()
        for sequence in left:
            if reply := self._closed(sequence):
                self._link.post(reply, NAK)
        if self._link.connected:
            with anyio.move_on_after(2):
                while self._link.queued:  # noqa: ASYNC110 - once, at a stop
                    await anyio.sleep(0.005)
                try:
                    await self._link.nc.flush(2)
                except Exception as e:
                    log.debug("can't flush: %s", e)

    async def _forget_requests(self) -> None:
        """Makes the server drop our requests, which have nobody to answer any more. nats-server 2.9 would try to answer
        them with what is given back, and then keep it until `ack_wait` has passed."""
        with anyio.move_on_after(2):
            try:
                await self._link.js.consumer_info(*self._consumer)
            except Exception as e:
                log.debug("no consumer info: %s", e)

    def lost(self) -> None:
        """The connection is gone."""
        self._subscription, self._current = None, False
        self._outstanding = 0
        held, self._held = self._held, None
        for sequence in held or ():  # not handed over yet; they are redelivered
            self._closed(sequence)

    def _resume_at(self) -> int:
        """The first message that may not be settled. The server's word counts, of the last look: what others were sent,
        or this gateway before it crashed, is not known here, however far we have read since."""
        return self._settled_to + 1

    def _reset(self) -> None:
        self._open.clear()
        self._bytes = 0
        self._acked.clear()
        self._acked_before.clear()
        self._mine.clear()
        self._highest = self._pinged_to = self._settled_to = self._repeats_to = 0

    def _acknowledge_again(self) -> None:
        """The last acknowledgements may have been lost with the connection."""
        self._current = True
        replies = [*self._acked_before.values(), *self._acked.values()]
        for reply in replies:
            self._link.post(reply, ACK)
        self._acked_before, self._acked = {}, dict(zip([*self._acked_before, *self._acked], replies, strict=True))

    # -- in order after a crash -------------------------------------------------------------------------------------

    async def _release(self) -> None:
        """Hands over what was held back, once all that was delivered before has been redelivered."""
        self._pull()
        await anyio.sleep(HOLD_POLL_S)
        if self._held is None or self._stopping:
            return
        info = await self._link.js.consumer_info(*self._consumer)
        late = self._clock.monotonic() > self._hold_until
        if self._stopping or ((info.num_ack_pending or 0) > len(self._open) and not late):
            return
        held, self._held = self._held or {}, None
        for sequence in sorted(held):
            msg, delivered = held[sequence]
            self._take(msg, sequence, delivered)

    # -- messages ---------------------------------------------------------------------------------------------------

    async def _received(self, msg: Msg) -> None:
        tokens = msg.reply.split(".")
        if tokens[0] != "$JS":
            self._status(msg)
            return
        if len(tokens) == 9:
            delivered, sequence = int(tokens[4]), int(tokens[5])
            self.pending = int(tokens[8])
        else:
            delivered, sequence = int(tokens[6]), int(tokens[7])
            self.pending = int(tokens[10])
        self._outstanding -= 1
        self._silent = False
        if delivered > 1 or sequence <= self._repeats_to:
            self.redelivered += 1
            if sequence in self._acked or sequence in self._acked_before or sequence in self._mine:
                self._link.post(msg.reply, ACK)
                return
        if self._stopping:  # `close` gives it back
            self._held = self._held or {}
            self._held.setdefault(sequence, (msg, delivered))
            self._opened(sequence, msg)
            return
        known = sequence in self._open
        self._opened(sequence, msg)
        if known:
            return
        if sequence > self._highest:
            self._highest = sequence
        if self._held is not None:
            self._held[sequence] = (msg, delivered)
        else:
            self._take(msg, sequence, delivered)
        if self._outstanding < self._low:
            self._pull()

    def _status(self, msg: Msg) -> None:
        """A message of the server about a request: it is alive and has nothing to send, or the request has ended."""
        self._heard = self._clock.monotonic()
        headers = msg.headers or {}
        status, text = headers.get("Status", ""), headers.get("Description", "")
        if status == "100":
            return
        left = headers.get("Nats-Pending-Messages", "")
        self._outstanding = max(0, self._outstanding - int(left)) if left.isdigit() else 0
        if status == "409" and "deleted" in text.lower():
            self._link.end(f"the consumer {self._consumer[1]} was deleted")
        elif status == "408":
            self._pull()
        elif status == "409" and "maxbytes" in text.lower():  # the next message is larger than what is left
            self._pull(any_size=not self._open)
        elif self._retry is None:  # the server shuts down, has a new leader, or too many wait
            self._retry = self._clock.call_later(RETRY_S, self._pull_again)

    def _pull_again(self) -> None:
        self._retry = None
        self._pull()

    def _pull(self, any_size: bool = False) -> None:
        """Asks for as many messages as there is room for; with `any_size`, for one, however large."""
        if self._stopping or self._subscription is None or self._outstanding > self._low:
            return
        # what is held back for order does not count: what it waits for must come
        room = self._most - len(self._open) + len(self._held or ()) - self._outstanding
        if room <= 0 or (self._outstanding and room < self._low):
            return
        if self._bytes > (self._most_bytes * 3 if self._awaits_repeats() else self._most_bytes) // 2:
            return
        if self._outstanding == 0:
            self._heard = self._clock.monotonic()
        count = 1 if any_size else min(room, self._batch)
        self._outstanding += count
        size = max(self._most_bytes // 4, self._link.nc.max_payload + EXTRA_BYTES)
        limit = "" if any_size else f'"max_bytes":{size},'
        request = f'{{"batch":{count},{limit}"expires":{_EXPIRES},"idle_heartbeat":{_HEARTBEAT}}}'
        self._link.post(self._next, request.encode(), self._inbox)

    def _awaits_repeats(self) -> bool:
        """Whether what is held back for order now waits for what the server sends first of all: messages that were not
        acknowledged within `ack_wait`. An earlier request would only bring more to hold back."""
        return self._held is not None and self._clock.monotonic() >= self._hold_until - 2

    def _opened(self, sequence: int, msg: Msg) -> None:
        size = len(msg.data)
        if (before := self._open.get(sequence)) is not None:
            self._bytes -= before[1]
        self._open[sequence] = msg.reply, size
        self._bytes += size

    def _closed(self, sequence: int) -> str:
        """Where to acknowledge it; "" if it is not open."""
        reply, size = self._open.pop(sequence, ("", 0))
        self._bytes -= size
        return reply

    def settle(self, sequence: int, how: bytes = ACK) -> None:
        """The message needs no more care: acknowledges it, or tells the server in another way (`TERM`)."""
        reply = self._closed(sequence)
        if not reply:
            return
        if self._current:  # else after the next connection, if it is still the same stream
            self._link.post(reply, how)
        self._acked[sequence] = reply
        self._mine.add(sequence)
        if len(self._acked) >= KEPT:
            self._acked_before, self._acked = self._acked, {}
        if self._outstanding <= self._low:
            self._pull()

    @property
    def lag(self) -> int:
        """Messages that are not settled, as far as the server has told. Of several workers, only the first one counts
        those that the consumer has not been sent: that is the same number for all."""
        return (self.pending if self._first else 0) + len(self._open)

    @property
    def open(self) -> int:
        """Messages that were taken and are not settled."""
        return len(self._open)

    def open_besides(self, sequences: Collection[int]) -> bool:
        """Whether messages were handed over and are not settled, besides these."""
        held = self._held or ()
        return any(sequence not in sequences and sequence not in held for sequence in self._open)

    def _looked(self, info: api.ConsumerInfo) -> None:
        self.pending = info.num_pending or 0
        self._settled_to = info.ack_floor.stream_seq if info.ack_floor else 0
        self._sent_to = info.delivered.stream_seq if info.delivered else 0

    def delivery_state(self, sequence: int) -> DeliveryState | None:
        """How far the consumer is with a message; None if another client may know."""
        if sequence in self._open:
            return "pending"
        if sequence in self._mine:
            return "passed"
        if sequence <= self._settled_to:
            return "settled"
        return "unread" if sequence > max(self._highest, self._sent_to) else None

    def _pings(self) -> None:
        """Tells the server that the messages which have been open for a while are in progress."""
        self._ping = self._clock.call_later(self._ack_wait_s / 3, self._pings)
        if self._link.connected:
            for sequence, (reply, _) in self._open.items():
                if sequence <= self._pinged_to:
                    self._link.post(reply, PROGRESS)
        self._pinged_to = self._highest
