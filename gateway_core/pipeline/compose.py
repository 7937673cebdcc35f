"""What happens to an event, from its source to the end of its delivery. The gateway binds the steps here and only here.

`PATH` lists the stages. The functions below bind them in the same order, each from the inside out: what is bound last
runs first. A step that nothing asks for is left out when the path is bound, so it costs no call per event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from ..contract.capabilities import BatchTracing, pulls
from ..contract.event import Event
from ..contract.interfaces import Admission, Channel, Codec, Feed, Intake, Send, Sink, Source
from ..contract.tracing import Origin, SendContext, Tracer
from .metering import Meter
from .steps import Accept, Refuse, Transform, admitted, observed, transformed, transformed_send
from .tracing import TracedSink, traced_intake, traced_refusal, traced_send


class Stage(NamedTuple):
    """A stage of the path, `what` it does, and the function or method that does it."""

    name: str
    by: Callable[..., Any]
    what: str


PATH = (
    Stage("decode", Codec.decode, "The source reads the events of a message, and calls `Intake.accept` with them."),
    Stage("admit", admitted, "Each admission lets them in, says that they are stored already, or refuses them."),
    Stage("transform", transformed, "Transforms before the store."),
    Stage("store", Channel.append, "The channel stores them, and the sender gets its answer. A bridge stores nothing."),
    Stage("match", Channel.attach, "The channel offers each event to the subscriptions whose filter matches it."),
    Stage("transform", transformed_send, "Transforms before the encoding, in each attempt."),
    Stage("encode", Codec.encode, "The sink writes the event into a message."),
    Stage("send", Sink.send, "The sink sends the message, and reports the outcome of this attempt."),
    Stage("settle", Feed.ack, "Delivered, or in the dead letter. A reply is transformed and stored before that."),
)
"""The stages, in the order in which an event passes them."""


# -- from a source: admit, transform --------------------------------------------------------------------------------


def traced_source(tracer: Tracer | None, owner: str, component: str, source: Source) -> tuple[Tracer, Origin] | None:
    """What records the spans of a source's events, for `entering`."""
    return (tracer, Origin(owner, component, lambda: source.address, pulls(source))) if tracer is not None else None


def entering(
    target: Intake,
    admissions: Sequence[Admission] = (),
    transforms: Sequence[Transform] = (),
    traced: tuple[Tracer, Origin] | None = None,
) -> tuple[Accept, Refuse]:
    """From a source into a broker or bridge: what the source calls with events, and with inputs that are none."""
    accept: Accept = target.accept
    refuse: Refuse = target.refuse
    if transforms:
        accept = transformed(transforms, refuse, accept)
    if admissions:
        accept = admitted(admissions, refuse, accept)
    if traced is not None:
        accept, refuse = traced_intake(*traced, accept), traced_refusal(*traced, refuse)
    return accept, refuse


# -- in a broker: store; `Trigger.attach` has the channel match -----------------------------------------------------


def storing(append: Accept, tell: Callable[[Sequence[Event]], None] | None, meter: Meter | None) -> Accept:
    """From the intake of a broker into its channel, by `Channel.append`, which stores events with the same
    key once if the broker wants it. `tell` tells observers what is stored; None if there are none."""
    accept = append
    if tell is not None:
        accept = observed(tell, accept)
    if meter is not None:
        accept = meter.accepting(accept)
    return accept


# -- an attempt: transform, encode, send ----------------------------------------------------------------------------


def sending(
    sink: Sink,
    owner: str,
    broker: str,
    transforms: Sequence[Transform] = (),
    meter: Meter | None = None,
    tracer: Tracer | None = None,
) -> Send:
    """From a delivery of a trigger or bridge to its sink, which encodes and sends."""
    send: Send = sink.send
    if meter is not None:
        send = meter.sending(send)
    if transforms:
        send = transformed_send(transforms, send)
    if tracer is not None:
        # the outermost step: the callback is the delivery, which knows the number of the attempt
        context = SendContext("deliver", owner, broker, lambda: sink.address)
        send = traced_send(tracer, context, send)
        if isinstance(sink, BatchTracing):
            sink.trace_batches(partial(tracer.sending_batch, context))
    return send


# -- the end of a delivery: its reply, or its dead letter; `Subscription` settles it --------------------------------


def replying(broker: str, accept: Accept, transforms: Sequence[Transform] = (), tracer: Tracer | None = None) -> Accept:
    """From a subscriber's reply into the broker."""
    if transforms:
        accept = transformed(transforms, _untold, accept)
    if tracer is not None:
        accept = traced_intake(tracer, Origin(broker, "reply", str), accept)
    return accept


def _untold(error: Exception) -> None:
    """A reply that is refused counts as a failed attempt of its event, not as a refused input."""


def giving_up(sink: Sink, owner: str, broker: str, tracer: Tracer | None = None) -> Sink:
    """From a trigger, broker or bridge to its dead letter."""
    if tracer is None:
        return sink
    return TracedSink(sink, tracer, SendContext("dead_letter", owner, broker, lambda: sink.address))
