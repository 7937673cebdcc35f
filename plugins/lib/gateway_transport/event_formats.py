"""Media types of event formats."""

from __future__ import annotations

_KNOWN_FORMATS = ("application/cloudevents+json", "application/cloudevents-batch+json")


def essence(media_type: str) -> str:
    """`type/subtype` in lower case, without parameters."""
    return media_type.partition(";")[0].strip(" \t").lower()


def is_unknown_format(content_type: str) -> bool:
    """Whether a media type is that of an event format that is not known here. Who reads that format would take such
    data for an event, whose type and sender nobody has checked."""
    kind = essence(content_type)
    return kind.startswith("application/cloudevents") and kind not in _KNOWN_FORMATS
