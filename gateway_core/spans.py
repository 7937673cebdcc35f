"""Where spans begin and end: the steps that a gateway with a tracer has between its parts (see `tracing`)."""

from __future__ import annotations

from .intake import Door
from .interfaces import Intake, Send, Sink, Source
from .tracing import Accept, Errand, Origin, TracedSink, Tracer, traced_intake, traced_send


class Tracing:
    """Puts the steps in. Without a tracer it changes nothing."""

    def __init__(self, tracer: Tracer | None) -> None:
        self._tracer = tracer
        self.on = tracer is not None

    def door(self, intake: Intake, owner: str, component: str, source: Source) -> Door:
        """What a source of this component gets as its intake."""
        pulls = getattr(source, "pulls", False)
        return Door(intake, self._tracer, Origin(owner, component, lambda: source.address, pulls))

    def replies(self, broker: str, accept: Accept) -> Accept:
        """The broker's intake for replies."""
        if self._tracer is None:
            return accept
        return traced_intake(self._tracer, Origin(broker, "reply", str), accept)

    def send(self, send: Send, sink: Sink, owner: str, broker: str) -> Send:
        """The attempts of a trigger or bridge, which `send` makes at this sink."""
        if self._tracer is None:
            return send
        # the outermost step: it knows a delivery, and so the number of the attempt, by the callback
        return traced_send(self._tracer, Errand("deliver", owner, broker, lambda: sink.address), send)

    def dead_letter(self, sink: Sink, owner: str, broker: str) -> Sink:
        """The dead letter of a trigger, broker or bridge."""
        if self._tracer is None:
            return sink
        return TracedSink(sink, self._tracer, Errand("dead_letter", owner, broker, lambda: sink.address))
