"""The trace context of a hop in the headers of a message (`gateway_core.contract.tracing`)."""

from __future__ import annotations

from collections.abc import Iterable

from gateway_core.contract.component import TRACE_HEADERS

MOST_BYTES = 1024
"""A longer `tracestate` is dropped; the specification asks for 512 at least."""


def of_headers(headers: Iterable[tuple[bytes, bytes]], names: tuple[bytes, bytes] | None = TRACE_HEADERS) -> str | None:
    """The context that a message's headers carry (in lower case, under the names of a `Binding.trace`), None if they
    carry none. The tracer checks whether it is well formed."""
    if names is None:
        return None
    of_parent, of_state = names
    parent: bytes | None = None
    states: list[bytes] = []
    for name, value in headers:
        if name == of_parent:
            if parent is not None:
                return None  # W3C Trace Context section 3.2: more than one is none
            parent = value
        elif name == of_state:
            states.append(value)
    if parent is None or not parent.isascii() or b" " in parent:
        return None
    state = b",".join(states)
    if not state or len(state) > MOST_BYTES or not state.isascii():
        return parent.decode()
    return f"{parent.decode()} {state.decode()}"


def headers(trace: str, names: tuple[bytes, bytes] | None = TRACE_HEADERS) -> list[tuple[bytes, bytes]]:
    """The headers that carry a context, under the names of a `Binding.trace`; none if the binding has no place for
    them."""
    if names is None:
        return []
    parent, _, state = trace.partition(" ")
    found = [(names[0], parent.encode())]
    if state:
        found.append((names[1], state.encode()))
    return found
