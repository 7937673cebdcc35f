"""What a path leads to, and what happens to a request. Both server engines use it."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from functools import partial

from gateway_access.gate import Gate
from gateway_serving import responses
from gateway_serving.content_coding import decoded
from gateway_serving.hosts import origin_form
from gateway_serving.responses import Answered, Response
from gateway_transport.trace_headers import of_headers
from gateway_transport.witness import MessageOrigin, Witness

from gateway_core.contract.errors import Refused, TidegateError
from gateway_core.contract.event import Event, Message
from gateway_core.contract.identity import Identity
from gateway_core.contract.interfaces import Accepted, Codec, Intake

Accept = Callable[[Message, Accepted, "Identity | None"], None]


_MOST_TOLD = 100
"""How many duplicates of a batch are named in the answer."""


class Endpoint:
    """One ingress: decodes events from requests and passes them to the intake."""

    __slots__ = (
        "_codec",
        "_decode",
        "_evaluate",
        "_intake",
        "_max_body_bytes",
        "_now_ns",
        "_read",
        "_traces",
        "asks_peer",
        "gate",
        "owner",
        "path",
        "target",
    )  # fmt: skip

    def __init__(
        self,
        path: str,
        codec: Codec,
        now_ns: Callable[[], int],
        intake: Intake,
        owner: str = "",
        traces: bool = False,
        *,
        max_body_bytes: int,
        gate: Gate | None = None,
        key_headers: Sequence[bytes] = (),
    ) -> None:
        self.path = path
        self.target = path.encode()
        self.owner = owner
        self._codec = codec
        self._read = codec.decode if not key_headers else partial(_with_headers, codec.decode, key_headers)
        self._decode = self._read
        self._now_ns = now_ns
        self._intake = intake
        self._traces = traces
        self._max_body_bytes = max_body_bytes
        self.gate = gate
        self._evaluate = gate.evaluate if gate is not None and gate.evaluates else None
        self.asks_peer = gate is not None
        """Whether messages must have their `peer`."""

    def witness(self, witness: Witness | None) -> None:
        """See `gateway_transport.witness.Witnessed`."""
        self.asks_peer = self.gate is not None or witness is not None
        secret = self.gate.credential_headers if self.gate is not None else ()
        self._decode = self._read if witness is None else partial(self._witnessed, witness, secret)

    def _witnessed(self, witness: Witness, secret: Container[bytes], message: Message) -> list[Event]:
        events = self._read(message)
        place = "" if message.peer is None else message.peer.address
        witness(events, MessageOrigin(place, message.headers, secret))
        return events

    def take(self, message: Message, done: Accepted) -> None:
        """Calls `done` with None once the message's events are safe, else with the error for the response. If
        it `asks_peer`, the message has its `peer`."""
        gate = self.gate
        if gate is None:
            self._accept(message, done)
        elif (who := gate.recognize(message)) is not None:
            self._accept(message, done, who)
        else:
            gate.check(message, partial(self._checked, self._accept, message, done))

    def options(self, headers: list[tuple[bytes, bytes]]) -> Response:
        """The response to an `OPTIONS` request."""
        return responses.options_answer()

    def take_coded(self, message: Message, done: Accepted) -> None:
        """`take` for a message with a `Content-Encoding`, which is removed before the codec sees the message."""
        if self.gate is None:
            self._accept_coded(message, done)
        else:
            self.gate.check(message, partial(self._checked, self._accept_coded, message, done))

    def _checked(
        self, accept: Accept, message: Message, done: Accepted, who: Identity | None, error: TidegateError | None
    ) -> None:
        if isinstance(error, Refused):
            self._refuse(error, message, done)
        elif error is not None:
            done(error)
        else:
            accept(message, done, who)

    def _accept(self, message: Message, done: Accepted, who: Identity | None = None) -> None:
        now = self._now_ns()
        try:
            events = self._decode(message)
            if who is None:
                for event in events:
                    event.received_ns = now
            else:
                for event in events:
                    event.received_ns = now
                    event.identity = who
                if self._evaluate is not None and (refusal := self._evaluate(who, message, events)):
                    raise refusal
        except Refused as e:
            self._refuse(e, message, done)
            return
        except Exception as e:  # even if a codec returns something that is not an event
            done(e)
            return
        if not events:  # an empty batch: nothing to wait for
            done(None)
            return
        if self._traces and (trace := of_headers(message.headers)):
            for event in events:
                event.trace = trace
        if getattr(self._intake, "deduplicates", False):  # stand-ins of tests need not know it
            done = partial(_answered, events, done)
        try:
            if self.gate is not None and who is not None and self._intake.admissions:
                done = self.gate.hearing(who, message, done)  # only admissions refuse what the gate let in
            self._intake.accept(events, done)
        except Exception as e:
            done(e)

    def _accept_coded(self, message: Message, done: Accepted, who: Identity | None = None) -> None:
        try:
            headers, body = decoded(message.headers, message.body or b"", self._max_body_bytes)
        except Refused as e:
            self._refuse(e, message, done)
            return
        plain = Message(headers, body, message.key, message.method, message.url)
        plain.peer = message.peer
        self._accept(plain, done, who)

    def _refuse(self, error: Refused, message: Message, done: Accepted) -> None:
        if self._traces:
            error.trace = of_headers(message.headers)
        self._intake.refuse(error)
        done(error)


def _with_headers(decode: Callable[[Message], list[Event]], names: Sequence[bytes], message: Message) -> list[Event]:
    """The events of a message, with the values of these headers (`Event.key_headers`)."""
    events = decode(message)
    found = [message.header(name) for name in names]
    values = tuple([None if value is None else value.strip().decode("latin-1") for value in found])
    for place, event in enumerate(events):
        event.key_headers = values if len(events) == 1 else (*values, str(place))
    return events


def _answered(events: Sequence[Event], done: Accepted, error: BaseException | None) -> None:
    """Names the duplicates to the sender: the positions of the first ones, in the order of the events."""
    if error is None:
        for event in events:
            if event.duplicate:
                firsts = [b"%d" % event.position for event in events if event.duplicate]
                error = Answered(Response(202, ((b"tidegate-duplicate", b", ".join(firsts[:_MOST_TOLD])),)))
                break
    done(error)


Routes = dict[bytes, Endpoint]


def find(routes: Routes, target: bytes) -> Endpoint | None:
    """The endpoint of a request target in origin or absolute form (RFC 9112 section 3.2); its query is ignored."""
    return routes.get(origin_form(target).partition(b"?")[0])


def decide(routes: Routes, method: bytes, target: bytes, headers: list[tuple[bytes, bytes]]) -> Endpoint | Response:
    """The endpoint of a request, or the response if the body does not matter."""
    endpoint = find(routes, target)
    if method == b"OPTIONS" and (endpoint is not None or target == b"*"):
        return endpoint.options(headers) if endpoint is not None else responses.options_answer()
    if endpoint is None or method != b"POST":
        return method_refused(routes, target, method)
    return endpoint


def method_refused(routes: Routes, target: bytes, method: bytes = b"This method") -> Response:
    """The response to a method that is not supported (methods are case-sensitive: RFC 9110 section 9.1), at any
    target."""
    return responses.NOT_FOUND if find(routes, target) is None else responses.not_allowed(method)
