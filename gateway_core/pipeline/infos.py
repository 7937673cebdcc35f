"""Reads the state of components. One that raises must not hide that of the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..contract.capabilities import Watched
from ..contract.interfaces import Channel, Feed, ReadingSink
from .guards import text_of_error
from .intake import BoundSource


def source_infos(bound_sources: Iterable[BoundSource]) -> list[dict[str, Any]]:
    """The state of sources that report it, and of sources that failed."""
    found = []
    for bound_source in bound_sources:
        if bound_source.alone and not bound_source.open:
            continue  # another worker runs it
        source = bound_source.source
        if isinstance(source, Watched):
            try:
                found.append({"address": source.address, "error": None, "lag": 0, **source.info()})
            except Exception as e:
                error = f"the source can't tell its state: {text_of_error(e)}"
                found.append({"address": source.address, "error": error, "lag": 0})
        elif bound_source.fault:
            found.append({"address": source.address, "error": bound_source.fault, "lag": 0})
        if bound_source.fault:
            found[-1]["error"] = bound_source.fault
    return found


def source_errors(bound_sources: Iterable[BoundSource]) -> dict[int, str]:
    """Why sources do not work, by their number."""
    found = {}
    for number, bound_source in enumerate(bound_sources):
        for info in source_infos([bound_source]):
            if info["error"]:
                found[number] = str(info["error"])
    return found


def addresses(bound_sources: Iterable[BoundSource]) -> list[str]:
    """The addresses of sources; for one that runs in another worker, if known before its start."""
    found = [getattr(bound_source.source, "address", "") for bound_source in bound_sources]
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
