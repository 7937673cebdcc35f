"""The source `nats`: reads a stream with a durable pull consumer, or listens with core NATS.

A message is acknowledged once its event is in stable storage, at its destination or in the dead letter. The
acknowledgement is not confirmed by the server (`AckSync`): one that is lost costs a duplicate, which can happen anyway,
and each confirmation would cost a request.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import anyio
from anyio.abc import TaskGroup
from gateway_transport.connection import lost
from gateway_transport.handover import Handover
from gateway_transport.messages import reader
from gateway_transport.not_an_event import handle, what_to_do, wrapped
from nats.aio.msg import Msg
from nats.js import api
from nats.js.errors import NotFoundError

from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Intake
from gateway_core.contract.outcome import Outcome
from gateway_core.contract.start_position import StartPosition

from .binding import NATS, message_of
from .client import Link
from .config import NatsSourceConfig
from .connect import check_keys
from .pull import ACK, TERM, Puller
from .stored import stored_ns
from .streams import Missing, ensure_consumer, ensure_stream, start_of

log = logging.getLogger("tidegate.nats")


class NatsSource:
    """`gateway_core.contract.interfaces.Source`."""

    pulls = True
    shares = True  # workers read with one consumer, or in one queue group

    def __init__(self, options: NatsSourceConfig, context: BuildContext) -> None:
        check_keys(options, context)
        self._options = options
        self._owner = context.owner
        self._clock = context.clock
        self._consumer = options.consumer_of(context.broker)
        self._decode = reader(options.codec, NATS, context)
        self._key = _key_of(options.key_token)
        self._stream = options.stream or ""
        self._dropped = self._number = 0
        self._full = self._stopping = False
        self._how = ACK
        self.address = f"{options.servers[0]}/{options.visible('subject')}"
        self._handover: Handover[int] = Handover(
            self._owner, self.address, context.clock, self._settle, most_bytes=options.max_held_bytes
        )
        self._link = Link(
            options,
            self._owner,
            context.clock,
            self._begin,
            run=self._run if options.jetstream else None,
            ended=self._lost,
        )
        self._puller = Puller(
            self._link,
            context.clock,
            self._take,
            most=options.max_in_flight,
            most_bytes=options.max_held_bytes,
            first=context.worker == 0,
            api_prefix=options.api_prefix,
            stream=self._ensure_stream,
            consumer=self._ensure_consumer,
            forget=self._handover.drop,
        )

    def read(self, message: Message) -> list[Event]:
        """See `gateway_core.contract.capabilities.Reading`."""
        headers = {name.decode(): value.decode("utf-8", "replace") for name, value in message.headers}
        return [self._decode(message_of(headers, message.body or b"", message.key))]

    # -- life -------------------------------------------------------------------------------------------------------

    async def start(self, intake: Intake, tasks: TaskGroup) -> None:
        """Connects, and makes or checks stream and consumer; keeps trying while the server or the stream is down.
        Raises `StartError` if the server refuses the credentials, or stream or consumer is not as configured."""
        self._handover.intake = intake
        await self._link.start(tasks)

    async def stop(self) -> None:
        """Fetches no more, waits for what is in flight, and gives the rest back for others to read at once."""
        self._stopping = True
        with anyio.CancelScope(shield=True):
            if self._options.jetstream:
                await self._puller.stop()
            await self._handover.drain()
            if self._options.jetstream:
                await self._puller.close()
            await self._link.stop()

    async def _begin(self) -> None:
        if self._options.jetstream:
            await self._puller.begin()
        else:
            await self._link.nc.subscribe(self._options.subject, queue=self._consumer, cb=self._heard)
            await self._link.nc.flush(self._seconds)

    async def _run(self) -> None:
        await self._puller.run()

    def _lost(self) -> None:
        if self._options.jetstream:
            self._puller.lost()

    @property
    def _seconds(self) -> int:
        return max(1, int(self._options.request_timeout_s))

    async def _ensure_stream(self) -> api.StreamInfo:
        o, js = self._options, self._link.js
        name = o.stream
        if name is None:
            try:
                name = await js.find_stream_name_by_subject(o.subject)
            except NotFoundError:
                raise Missing(f"no stream has the subject {o.subject}") from None
        self._stream = name
        return await ensure_stream(js, name, o.create)

    async def _ensure_consumer(self, resume_at: int | None) -> api.ConsumerInfo:
        o = self._options
        return await ensure_consumer(
            self._link.js,
            self._stream,
            self._consumer,
            filters=[o.subject],
            start=start_of(o.start) if resume_at is None else StartPosition.at_positions({0: resume_at}),
            ack_wait_s=o.ack_wait_s,
            max_ack_pending=max(1000, o.max_in_flight),
            compare=lambda option: option == "ack_wait_s" and option in o.model_fields_set,
        )

    # -- messages ---------------------------------------------------------------------------------------------------

    def _take(self, msg: Msg, sequence: int, delivered: int) -> None:
        key = self._key(msg.subject) if self._key is not None else None
        try:
            event = self._decode(message_of(msg.headers, msg.data, key))
        except Refused as e:
            self._not_an_event(msg, sequence, e, key)
            return
        most = self._options.max_deliveries
        if most is not None and delivered > most:
            reason = f"delivered {delivered - 1} times and never acknowledged"
            self._handover.dead_letter(event, sequence, Outcome(False, reason=reason))
        else:
            self._handover.take(event, sequence)

    def _not_an_event(self, msg: Msg, number: int, error: Refused, key: bytes | None) -> None:
        headers = msg.headers or {}
        event = wrapped(
            id=str(number),
            source=f"nats:/{quote(self._stream or 'core', safe='')}/{quote(msg.subject, safe='.')}",
            type=self._options.wrap_type,
            data=msg.data,
            headers=[(name, value.encode()) for name, value in headers.items()],
            prefix="nats",
            key=key,
            timestamp_ms=_stored_ms(msg),
            received_ns=self._clock.now_ns(),
        )
        what = what_to_do(self._options.not_an_event, error)
        self._how = TERM if what == "drop" else ACK  # `drop` settles at once
        handle(self._options, self._handover, event, number, error)
        self._how = ACK

    def _settle(self, number: int) -> None:
        if self._options.jetstream:
            self._puller.settle(number, self._how)

    async def _heard(self, msg: Msg) -> None:
        """A message of core NATS: nobody keeps it for us."""
        handover = self._handover
        if self._stopping or handover.held >= self._options.max_in_flight or handover.full:
            self._dropped += 1
            if not self._full:
                log.warning("%s has no room: messages are lost, since core NATS does not keep them", self._owner)
            self._full = True
            return
        self._full = False
        self._number += 1
        self._take(msg, self._number, 1)

    # -- for status -------------------------------------------------------------------------------------------------

    def metrics(self) -> dict[str, float]:
        """See `gateway_core.contract.capabilities.Measured`."""
        return lost("nats", self._link.losses)

    def info(self) -> dict[str, Any]:
        """See `gateway_core.contract.capabilities.Watched`. `redelivered` counts redelivered messages, `dropped`
        those of core NATS for which there was no room."""
        found = {"address": self.address, "error": self._link.error, "reconnects": self._link.losses}
        if not self._options.jetstream:
            return {**found, "lag": self._handover.held, "dropped": self._dropped}
        puller = self._puller
        return {
            **found,
            "lag": puller.lag,
            "stream": self._stream,
            "consumer": self._consumer,
            "redelivered": puller.redelivered,
        }


def _key_of(token: int | None) -> Callable[[str], bytes | None] | None:
    if token is None:
        return None

    def key(subject: str) -> bytes | None:
        tokens = subject.split(".")
        return tokens[token - 1].encode() if len(tokens) >= token else None

    return key


def _stored_ms(msg: Msg) -> int:
    """When the stream stored the message, Unix time in milliseconds; -1 if none did."""
    return (stored_ns(msg.reply) or -1_000_000) // 1_000_000
