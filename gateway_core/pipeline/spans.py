"""Inserts the tracing steps (`tracing`) between the parts of a gateway that has a tracer."""

from __future__ import annotations

from ..contract.capabilities import pulls
from ..contract.interfaces import Intake, Send, Sink, Source
from ..contract.tracing import Origin, SendContext, Tracer
from .intake import SwitchableIntake
from .tracing import Accept, TracedSink, traced_intake, traced_send


class Tracing:
    """Inserts the steps. Without a tracer it changes nothing."""

    def __init__(self, tracer: Tracer | None) -> None:
        self._tracer = tracer
        self.on = tracer is not None

    def intake(self, intake: Intake, owner: str, component: str, source: Source) -> SwitchableIntake:
        """The intake for a source."""
        origin = Origin(owner, component, lambda: source.address, pulls(source))
        return SwitchableIntake(intake, self._tracer, origin)

    def replies(self, broker: str, accept: Accept) -> Accept:
        """The broker's intake for replies."""
        if self._tracer is None:
            return accept
        return traced_intake(self._tracer, Origin(broker, "reply", str), accept)

    def send(self, send: Send, sink: Sink, owner: str, broker: str) -> Send:
        """The attempts of a trigger or bridge, which `send` makes at this sink."""
        if self._tracer is None:
            return send
        # the outermost step: the callback is the delivery, which knows the number of the attempt
        return traced_send(self._tracer, SendContext("deliver", owner, broker, lambda: sink.address), send)

    def dead_letter(self, sink: Sink, owner: str, broker: str) -> Sink:
        """The dead letter of a trigger, broker or bridge."""
        if self._tracer is None:
            return sink
        return TracedSink(sink, self._tracer, SendContext("dead_letter", owner, broker, lambda: sink.address))
