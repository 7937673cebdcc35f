"""A function is a sink that brings back replies."""

from __future__ import annotations

from gateway_core.component import BuildContext, CodecRef, SinkRef
from gateway_core.errors import StartError
from gateway_core.interfaces import ReadingSink, Sink

from .config import FnCodecConfig


def build_function(ref: SinkRef, context: BuildContext) -> Sink:
    """The function's sink. Where its options have a codec and do not name another, that is `fn`, reading leniently.

    Raises `StartError` where the sink can't call a function.
    """
    options = ref.options
    fields = type(options).model_fields if options is not None else {}
    if options is not None and "codec" in fields:
        chosen: CodecRef = getattr(options, "codec")  # noqa: B009 - any sink's model
        if "codec" not in options.model_fields_set or chosen.name == "fn":
            codec = CodecRef("fn", options=FnCodecConfig(lenient=True))
            ref = SinkRef(ref.name, ref.raw, options.model_copy(update={"codec": codec}))
    sink: Sink = context.build(ref, "function", wants_reply=True)
    if isinstance(sink, ReadingSink):
        raise StartError(f"{context.owner}.function: {ref.name!r} reads the channel by itself and is no function")
    return sink
