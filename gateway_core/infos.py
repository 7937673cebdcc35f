"""What components say of themselves. One that raises instead must not spoil the look at all the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .abilities import Watched
from .guards import text_of_error
from .intake import Inlet
from .interfaces import Channel, Feed, ReadingSink


def source_infos(inlets: Iterable[Inlet]) -> list[dict[str, Any]]:
    """What sources that fetch their events say of themselves, and that others have failed."""
    found = []
    for inlet in inlets:
        if inlet.alone and not inlet.open:
            continue  # another worker runs it
        source = inlet.source
        if isinstance(source, Watched):
            try:
                found.append({"address": source.address, "error": None, "lag": 0, **source.info()})
            except Exception as e:
                error = f"the source can't tell its state: {text_of_error(e)}"
                found.append({"address": source.address, "error": error, "lag": 0})
        elif inlet.fault:
            found.append({"address": source.address, "error": inlet.fault, "lag": 0})
        if inlet.fault:
            found[-1]["error"] = inlet.fault
    return found


def source_errors(inlets: Iterable[Inlet]) -> dict[int, str]:
    """By number, the sources that do not work, and why."""
    found = {}
    for number, inlet in enumerate(inlets):
        for info in source_infos([inlet]):
            if info["error"]:
                found[number] = str(info["error"])
    return found


def addresses(inlets: Iterable[Inlet]) -> list[str]:
    """Where events go in; of a source that runs in another worker, where it is known before its start."""
    found = [getattr(inlet.source, "address", "") for inlet in inlets]
    return [address for address in found if address]


def channel_info(channel: Channel) -> dict[str, Any]:
    """`Channel.info`."""
    try:
        return {"writable": True, **channel.info()}
    except Exception as e:
        return {"writable": False, "error": f"the channel can't tell its state: {text_of_error(e)}", "unrouted": 0}


def reader_state(sink: ReadingSink) -> dict[str, Any]:
    """`ReadingSink.state`."""
    try:
        return {"state": "unknown", "error": None, "lag": None, **sink.state()}
    except Exception as e:
        return {"state": "unknown", "error": f"the reader can't tell its state: {text_of_error(e)}", "lag": None}


def lag_of(feed: Feed) -> int:
    """`Feed.lag`."""
    try:
        return int(feed.lag())
    except Exception:
        return 0
