"""Waits until an event is seen delivered."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from contextlib import aclosing

from gateway_inspect.context import InspectContext
from gateway_inspect.tap.choice import Choice
from gateway_inspect.tap.stream import batches

from gateway_core.contract.event import Event, text_of

_PLAIN = re.compile(r"[^\s'\"*]+")


async def seen_delivered(
    inspect: InspectContext, trigger: str | None, event: Event, send: Callable[[], Awaitable[str]]
) -> str:
    """Sends an event, and watches what becomes of it in all workers. Returns "" once it was delivered by `trigger`
    (None: by any), else why it will not be: what `send` returns, or that it is a dead letter again."""
    id_, source = text_of(event.attributes.get("id", "")), event.attributes.get("source")
    filters = (f"id={id_}",) if _PLAIN.fullmatch(id_) else ()
    async with aclosing(batches(Choice(None, trigger, filters), inspect)) as found:
        async for batch in found:
            if batch.workers and (fault := await send()):
                return fault
            for text in batch.lines:
                line = json.loads(text)
                of = line.get("event", {})
                if of.get("id") != id_ or of.get("source") != source:
                    continue
                if line.get("delivered"):
                    return ""
                if line["kind"] == "dead_lettered":
                    return f"it failed again, and is a dead letter of its own: {line.get('reason', '')}".rstrip(": ")
            if batch.ended:
                return "the gateway stopped before it was delivered"
    return "no delivery was seen"
