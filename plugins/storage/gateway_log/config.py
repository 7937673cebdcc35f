"""Options of the channel `log`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gateway_core.contract.component import Config

GIB = 1024**3
MIB = 1024**2


class RetentionConfig(Config):
    """How long events are kept. The oldest events are always deleted first. When the disk is full, events that all
    triggers have processed are deleted early."""

    max_age_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = 7 * 86_400.0
    """Events older than this are deleted, in seconds; null for no limit. For an hour after the machine's clock has
    jumped forward, no event is deleted because of its age."""
    max_bytes: Annotated[int, Field(ge=MIB)] | None = 10 * GIB
    """The oldest events are deleted while the broker's log is larger than this, in bytes; null for no limit. Each
    worker gets an equal share."""
    keep_unread: bool = True
    """Never delete events that a trigger of the config has not processed yet. The log may then exceed the limits while
    a subscriber is down. If false, that subscriber loses deleted events."""


class LogConfig(Config):
    """A durable log on this machine's disk."""

    retention: RetentionConfig = RetentionConfig()
    """How long events are kept."""
    sync: Literal["full", "normal"] = "full"
    """full: an accepted event survives a power failure (fsync for every group of events). normal: it survives a crash
    of the gateway, but a power failure may lose the most recent events."""
    max_queue_bytes: Annotated[int, Field(ge=1024)] = 64 * MIB
    """The most bytes of events that may wait to be written; beyond that, senders are told to retry later."""
    check_interval_s: Annotated[float, Field(gt=0, le=3600)] = 10.0
    """How often the retention limits are checked, in seconds."""
