"""Messages of a transport to and from events, by codec."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from gateway_core.contract.component import Binding, BuildContext, CodecRef, KeyMapperRef
from gateway_core.contract.component_errors import text_of_error
from gateway_core.contract.errors import Overloaded, Refused, TidegateError
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Codec, KeyMapper
from gateway_core.contract.shortage import may_pass

from .trace_headers import headers as trace_headers
from .trace_headers import of_headers


def reader(ref: CodecRef, binding: Binding, context: BuildContext, what: str = "message") -> Callable[[Message], Event]:
    """Returns a function that decodes the one event of a message, with the time and trace context of its arrival. It
    raises `Refused` if the message is not an event, or the codec fails. `what` is the transport's word for one."""
    codec = cast(Codec, context.build(ref, "codec", binding=binding))
    decode, now, traces, names = codec.decode, context.clock.now_ns, context.traces, binding.trace

    def read(message: Message) -> Event:
        try:
            events = decode(message)
        except Refused as e:
            if traces:
                e.trace = of_headers(message.headers, names)
            raise
        except Exception as e:  # a bug in a codec must not block the messages behind
            raise Refused(f"the codec failed: {type(e).__name__}: {e}") from e
        if len(events) != 1:
            raise Refused(f"a {what} holds one event, this one {len(events)}")
        event = events[0]
        event.received_ns = now()
        if traces:
            event.trace = of_headers(message.headers, names)
        return event

    return read


def writer(
    ref: CodecRef, binding: Binding, context: BuildContext, key: KeyMapperRef | None = None
) -> Callable[[Event], Message]:
    """Returns a function that encodes an event as a message, with its trace context, and its key if there is a key
    mapper. It raises `Refused` if the event can't be encoded."""
    encode = cast(Codec, context.build(ref, "codec", binding=binding)).encode
    mapper = cast(KeyMapper, context.build(key, "key")) if key is not None else None
    names = binding.trace

    def write(event: Event) -> Message:
        message = encode(event)
        if event.trace is not None and names is not None:
            message.headers = [*message.headers, *trace_headers(event.trace, names)]
        if mapper is not None:
            message.key = mapper(event)
        return message

    return write


def unwritten(error: Exception, what: str = "message") -> TidegateError:
    """What a channel answers for an event that it could not write, as `writer` raised `error`."""
    text = f"the event can't be written as a {what}: {text_of_error(error)}"
    if may_pass(error):
        return Overloaded(text)
    return error if isinstance(error, Refused) else Refused(text, status=500)
