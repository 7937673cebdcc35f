"""Converts trace contexts between text (see `gateway_core.contract.tracing`) and OpenTelemetry's objects."""

from __future__ import annotations

import re
from typing import Any

from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState, set_span_in_context

_PARENT = re.compile("([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_ROOT = Context()


def read(text: str | None) -> SpanContext | None:
    """The context of a text; None if it is malformed, which means to ignore it (W3C Trace Context 3.2.2.3)."""
    if not text:
        return None
    parent, _, state = text.partition(" ")
    found = _PARENT.fullmatch(parent)
    if found is None:
        return None
    version, trace, span, flags, more = found.groups()
    if version == "ff" or (version == "00" and more):
        return None
    context = SpanContext(
        int(trace, 16),
        int(span, 16),
        True,
        TraceFlags(int(flags, 16)),
        TraceState.from_header([state]) if state else None,
    )
    return context if context.is_valid else None


def of_attributes(attributes: dict[str, Any]) -> SpanContext | None:
    """The context in an event's own attributes (CloudEvents distributed tracing extension)."""
    parent = attributes.get("traceparent")
    if type(parent) is not str:
        return None
    state = attributes.get("tracestate")
    return read(f"{parent} {state}" if type(state) is str and state else parent)


def write(context: SpanContext) -> str | None:
    """The text of a context; None if its tracer is disabled."""
    if not context.is_valid:
        return None
    parent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
    return f"{parent} {context.trace_state.to_header()}" if context.trace_state else parent


def under(parent: SpanContext | None) -> Context:
    """The context for a new span: a parent, or none. Never the context that is current on this thread."""
    return _ROOT if parent is None else set_span_in_context(NonRecordingSpan(parent), _ROOT)


def same(one: SpanContext, other: SpanContext) -> bool:
    return one.span_id == other.span_id and one.trace_id == other.trace_id
