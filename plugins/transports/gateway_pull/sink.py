"""The sink `pull`: events wait for subscribers that fetch them."""

from __future__ import annotations

from collections.abc import Callable

from anyio.abc import TaskGroup
from gateway_access.exposure import refuse_open
from gateway_options.secrecy import shown_url
from gateway_transport.messages import writer

from gateway_core.contract.component import Binding, BuildContext, CodecRef
from gateway_core.contract.errors import Refused, StartError
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Outcome
from gateway_core.contract.outcome import unwritable

from .config import PullSinkConfig
from .endpoint import Endpoint
from .leases import Item
from .listener import Listener, attach, detach

BINDING = Binding("pull", b"", False, "JSON event format 1.0.2", trace=None)
_YEARS_S = 10 * 365 * 86_400.0


class PullSink:
    """`gateway_core.contract.interfaces.Sink`. An attempt begins when an event is there to be fetched, and ends
    with its lease: so nothing is retried, or goes to the dead letter, while nobody fetches. The trigger's `timeout_s`
    does not apply."""

    longest_s = _YEARS_S  # how long nobody may come

    def __init__(self, options: PullSinkConfig, context: BuildContext) -> None:
        self._options = options
        self._context = context
        if not context.offline:
            refuse_open(options, context.owner)
            if context.workers > 1:
                text = "a subscriber would reach one worker only, and get its share of the events: use one worker"
                raise StartError(f"{context.owner}: the sink `pull` works with one worker ({text})")
        self._write = writer(CodecRef("cloudevents", {"mode": "structured"}), BINDING, context)
        self._endpoint = Endpoint(context.owner, options, context.clock)
        self._listener: Listener | None = None
        self.in_flight = self.most_in_flight = options.max_leased
        url = f"{'https' if options.tls else 'http'}://{options.listen}{options.path}"
        self.address = shown_url(url, hidden=options.hides("path"))

    async def start(self, tasks: TaskGroup) -> None:
        """Listens. Raises `StartError`."""
        self._listener = attach(self._endpoint, self._options, self._context, tasks)
        self.address = shown_url(self._listener.url(self._options.path), hidden=self._options.hides("path"))

    async def stop(self) -> None:
        self._endpoint.stop()
        if self._listener is not None:
            await detach(self._listener, self._endpoint, self._options.path)
        self._endpoint.leases.close()

    def release(self) -> None:
        """See `gateway_core.contract.capabilities.Fetched`."""
        self._endpoint.stop()
        self._endpoint.leases.release()

    def preview(self, event: Event) -> Message:
        """See `gateway_core.contract.capabilities.Previewing`."""
        message = self._write(event)
        return Message(message.headers, message.body, url=self.address)

    def send(self, event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
        if self._endpoint.leases.closed:
            done(Outcome(False, retry=True, code=503, reason="the gateway stops"))
            return
        try:
            text = self._write(event).body or b""
        except Refused as e:
            done(unwritable(e))
            return
        self._endpoint.leases.offer(Item(text, event.position, done))
