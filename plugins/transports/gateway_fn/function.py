"""A function is a sink that returns replies."""

from __future__ import annotations

from gateway_core.contract.component import BuildContext, CodecRef, SinkRef
from gateway_core.contract.errors import StartError
from gateway_core.contract.interfaces import ReadingSink, Sink

from .config import FnCodecConfig


def build_function(ref: SinkRef, context: BuildContext) -> Sink:
    """The function's sink. If its options have a codec and the config sets none, it is `fn` with `lenient`. Raises
    `StartError` if the sink can't call a function.
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
        raise StartError(
            f"{context.owner}.function: {ref.name!r} reads the channel itself, so it can't call a function"
        )
    return sink
