"""Options of the channel `log`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gateway_core.component import Config

GIB = 1024**3
MIB = 1024**2


class RetentionConfig(Config):
    """How long events are kept. Whatever the limits are, events go oldest first. When the disk is full, events that all
    triggers have dealt with are deleted before their time."""

    max_age_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = 7 * 86_400.0
    """Events older than this are deleted, in seconds; null for no limit. In the hour after the machine's clock jumped
    forward, none is deleted for its age."""
    max_bytes: Annotated[int, Field(ge=MIB)] | None = 10 * GIB
    """The oldest events are deleted while the broker's log takes more bytes than this; null for no limit. Each worker
    keeps to its part of it."""
    keep_unread: bool = True
    """Never delete what a trigger of the config has not dealt with yet. The log may then grow beyond the limits while
    a subscriber is away; when false, that subscriber loses what is deleted."""


class LogConfig(Config):
    """A durable log on this machine's disk."""

    retention: RetentionConfig = RetentionConfig()
    """How long events are kept."""
    sync: Literal["full", "normal"] = "full"
    """full: an accepted event survives power loss (fsync for every group of events). normal: it survives the crash of
    the gateway, but power loss may take the last moments."""
    max_queue_bytes: Annotated[int, Field(ge=1024)] = 64 * MIB
    """Bytes of events that may wait to be written; beyond that senders are told to come back later."""
    check_interval_s: Annotated[float, Field(gt=0, le=3600)] = 10.0
    """How often the retention's limits are looked at, in seconds."""
