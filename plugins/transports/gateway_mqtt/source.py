"""The source `mqtt`: subscribes to topics, and acknowledges a message once its event is safe."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import anyio
from anyio.abc import TaskGroup
from gateway_options.client_tls import client_context
from gateway_transport.connection import Connection, Rejected, leaf, lost
from gateway_transport.handover import Handover
from gateway_transport.messages import reader
from gateway_transport.not_an_event import handle, wrapped
from gateway_transport.witness import MessageOrigin, Witness

from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Intake
from gateway_core.contract.normal_form import without_names
from gateway_core.contract.one_line import one_line

from .binding import STRUCTURED, Publish, binding
from .client import MqttClient
from .config import MqttSourceConfig
from .rivals import Rivals
from .sessions import by_content
from .subscriptions import Members, Subscriptions

log = logging.getLogger("tidegate.mqtt")

QUIET_S = 2.0
"""A former worker's session is empty if nothing has come from it for so long, in seconds."""
_RETAIN_HANDLING = {"all": 0, "new": 1, "ignore": 2}


def _default_id(options: MqttSourceConfig, context: BuildContext) -> str:
    """What the config's names say (`sessions`), or for a source outside of a config what it reads."""
    return context.names.get(context.place) or by_content(f"source.{context.broker}", options)


class MqttSource:
    """`gateway_core.contract.interfaces.Source`. Messages are acknowledged in the order in which they came, as MQTT 5
    demands (section 4.6)."""

    pulls = True

    def __init__(self, options: MqttSourceConfig, context: BuildContext) -> None:
        self._options = options
        self._owner = context.owner
        self._now = context.clock.now_ns
        self._is_5 = options.version == "5"
        self.shares = options.group is not None
        # stable over restarts, so that the session is found again; with shared subscriptions one for each worker
        self._base_id = options.client_id or _default_id(options, context)
        self._client_id = self._base_id if options.group is None else f"{self._base_id}-{context.worker}"
        self._rivals = Rivals(self._client_id, context.clock.monotonic)
        self._workers = context.workers
        self._members: Members | None = None
        if options.group is not None and context.worker == 0:
            self._members = Members(context.data_dir, options, self._base_id)
        self._tls: ssl.SSLContext | None = None
        if options.tls is not None and not context.offline:
            self._tls = client_context(options.tls, context.owner)
        self._read = reader(options.codec, binding(options.version, context.traces), context)
        self._retained = options.retained or ("new" if self._is_5 else "all")
        self._subscriptions = Subscriptions(context.data_dir, options, self._client_id)
        self._client: MqttClient | None = None
        self._stopping = False
        self._paused: set[MqttClient] = set()
        self._witness: Witness | None = None
        self._sessions = 0
        self._resumed = False
        self._expiry_s: int | None = None
        self._counts = {"received": 0, "retained_ignored": 0, "sessions_lost": 0}
        self.address = f"{options.url}/{options.visible('topics')}"
        self._handover: Handover[tuple[MqttClient, Publish]] = Handover(
            context.owner,
            self.address,
            context.clock,
            self._settle,
            in_order=True,
            most_bytes=options.max_held_bytes,
        )
        self._connection = Connection(context.owner, f"MQTT at {options.url}", self._session)

    # -- life -------------------------------------------------------------------------------------------------------

    async def start(self, intake: Intake, tasks: TaskGroup) -> None:
        """Connects and subscribes, and keeps trying while the server is down. Raises `StartError` if the server
        rejects the credentials or the subscription."""
        self._handover.intake = intake
        await self._connection.start(tasks)

    async def stop(self) -> None:
        self._stopping = True
        if self._client is not None:
            self._client.pause()
        await self._handover.drain()
        await self._connection.stop()

    async def _session(self, connected: Callable[[], None]) -> None:
        options = self._options
        client = MqttClient(
            options,
            self._client_id,
            clean=False,
            received=lambda message: self._received(client, message),
            session_expiry_s=options.session_expiry_s,
            receive_maximum=options.receive_maximum,
        )
        try:
            self._client = client
            await client.open(self._tls)
            self._rivals.connected()
            limits = client.limits
            if options.group is not None and not limits.shares:
                raise Rejected("the server has no shared subscriptions; remove `group`")
            self._note_session(limits.session_present, limits.session_expiry_s)
            filters = [self._filter(topic) for topic in options.topics]
            await client.forget(self._subscriptions.stale(filters) if limits.session_present else [])
            await client.subscribed(filters, options.qos, _RETAIN_HANDLING[self._retained])
            self._subscriptions.remember(filters)
            connected()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._end_former_sessions, filters)
                await client.ended()
                tasks.cancel_scope.cancel()
        except Exception as e:
            self._rivals.ended(leaf(e))
            raise
        finally:
            self._client = None
            self._handover.drop()
            await client.close()

    async def _end_former_sessions(self, filters: list[str]) -> None:
        """The session of a worker that the gateway no longer has would keep getting its share of the events: takes
        what waits in it, and ends it."""
        members = self._members
        if members is None:
            return
        try:
            for number in range(self._workers, members.before()):
                await self._end_session(f"{self._base_id}-{number}", filters)
        except (OSError, Rejected) as e:
            log.warning("%s: a former worker's MQTT session is not ended yet: %s", self._owner, one_line(e))
        else:
            members.remember(self._workers)

    async def _end_session(self, client_id: str, filters: list[str]) -> None:
        options = self._options
        former = MqttClient(
            options.model_copy(update={"will": None}),
            client_id,
            clean=False,
            received=lambda message: self._received(former, message),
            session_expiry_s=options.session_expiry_s,
            receive_maximum=options.receive_maximum,
        )
        done = False
        try:
            await former.open(self._tls)
            await former.forget(filters)
            await former.emptied(QUIET_S)
            done = True
        finally:
            await former.close(end_session=done)

    def _filter(self, topic: str) -> str:
        group = self._options.group
        return topic if group is None else f"$share/{group}/{topic}"

    def _note_session(self, present: bool, expiry_s: int | None) -> None:
        if self._sessions and not present and self._options.session_expiry_s:
            self._counts["sessions_lost"] += 1
            log.warning("%s: the server has lost the session, with the messages that waited in it", self._owner)
        self._sessions += 1
        self._resumed = present
        self._expiry_s = expiry_s

    # -- messages ---------------------------------------------------------------------------------------------------

    def _received(self, client: MqttClient, message: Publish) -> None:
        handover, token = self._handover, (client, message)
        self._counts["received"] += 1
        if message.retain and self._retained == "ignore":
            self._counts["retained_ignored"] += 1
            handover.skip(token)
            return
        try:
            event = self._read(message.message())
        except Refused as e:
            handle(self._options, handover, self._wrapped(message), token, e)
        else:
            self._mark(event, message.topic)
            if self._witness is not None:
                self._witness((event,), MessageOrigin(f"topic {message.topic}", message.headers))
            handover.take(event, token)
        message.payload = b""  # the token needs no second copy of what the event has
        if handover.held >= 2 * self._options.receive_maximum or handover.full:
            client.pause()
            self._paused.add(client)

    def witness(self, witness: Witness | None) -> None:
        """See `gateway_transport.witness.Witnessed`."""
        self._witness = witness

    def _mark(self, event: Event, topic: str) -> None:
        if self._options.topic_attribute is not None:
            name = self._options.topic_attribute
            if "specversion" not in event.attributes:
                event.attributes = without_names(event.attributes, (name,))
            event.attributes[name] = topic
        if self._options.key == "topic":
            event.key = topic.encode()

    def _wrapped(self, message: Publish) -> Event:
        """A message that is not an event, as one. MQTT gives messages no number, so its id is new each time."""
        topic = message.topic
        headers = [(name.decode(errors="replace"), value) for name, value in [*message.headers, *message.other]]
        return wrapped(
            id=str(uuid4()),
            source=f"mqtt:/{quote(topic.lstrip('/'))}",
            type=self._options.wrap_type,
            data=message.payload,
            headers=headers,
            prefix="mqtt",
            key=topic.encode(),
            received_ns=self._now(),
        )

    def _settle(self, token: tuple[MqttClient, Publish]) -> None:
        client, message = token
        if message.qos:
            client.settled(message)
        if self._paused and not self._stopping:
            self._read_on()

    def _read_on(self) -> None:
        if self._handover.roomy and self._handover.held <= self._options.receive_maximum:
            paused, self._paused = self._paused, set()
            for client in paused:
                client.resume()

    def read(self, message: Message) -> list[Event]:
        """See `gateway_core.contract.capabilities.Reading`."""
        return [self._read(Message(message.headers or [STRUCTURED], message.body, message.key))]

    # -- for status -------------------------------------------------------------------------------------------------

    def metrics(self) -> dict[str, float]:
        """See `gateway_core.contract.capabilities.Measured`."""
        return lost("mqtt", self._connection.losses)

    def info(self) -> dict[str, Any]:
        """`lag` counts the messages that the server has sent and that are not safe yet: it does not say how many still
        wait there."""
        connection = self._connection
        known: dict[str, Any] = {
            "address": self.address,
            "error": self._rivals.fault or connection.error,
            "lag": self._handover.held,
            "client_id": self._client_id,
            "delivers": "at most once" if self._options.qos == 0 else "at least once",
            "losses": connection.losses,
            **self._counts,
        }
        if connection.connected:
            known["session"] = "resumed" if self._resumed else "new"
            if self._expiry_s is not None:
                known["session_expiry_s"] = self._expiry_s
        return known
