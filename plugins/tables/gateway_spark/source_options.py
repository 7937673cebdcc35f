"""The options for Spark to read a channel."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from gateway_core.contract.interfaces import ReaderFeed

from .config import SparkSinkConfig
from .job import KAFKA, LOG

CHANNELS = (LOG, KAFKA)
"""The kinds of channels that a query can read."""
HIDDEN = {"spark.sql.redaction.options.regex": "(?i)url|jaas|keystore|password|secret|token"}
"""A setting that hides passwords in what Spark shows of a query."""


def options_of(feed: ReaderFeed, config: SparkSinkConfig) -> dict[str, str]:
    """The options of a job that reads a channel from these offsets. The start only counts if Spark has no
    checkpoint."""
    options = _kafka(feed, config) if feed.options.get("kind") == KAFKA else _log(feed, config)
    for name in ("filters", "attributes"):
        if value := feed.options.get(name):
            options[name] = _json(value)
    return options


def channel_id(feed: ReaderFeed) -> str:
    """What identifies a channel to people, and a topic that was deleted and created again."""
    if feed.options.get("kind") == KAFKA:
        topic: str = feed.options["topic"]
        return f"{topic} {feed.options.get('topic_ids', {}).get(topic, '')}".strip()
    return str(Path(feed.location).absolute())


def _log(feed: ReaderFeed, config: SparkSinkConfig) -> dict[str, str]:
    return {
        "location": str(Path(feed.location).absolute()),
        "startingOffsets": _json(dict(feed.start)),
        "maxEventsPerTrigger": str(config.max_events_per_batch),
    }


def _kafka(feed: ReaderFeed, config: SparkSinkConfig) -> dict[str, str]:
    topic = feed.options["topic"]
    # partitions that were added since then are read from their beginning
    start = {**dict.fromkeys(feed.ends(), -2), **feed.start}
    return {
        **{f"kafka.{name}": value for name, value in feed.options["properties"].items()},
        "subscribe": topic,
        **(
            {"startingOffsets": _json({topic: start})}
            if start
            else _unknown(topic, feed.options.get("start", {"kind": "latest"}))
        ),
        "maxOffsetsPerTrigger": str(config.max_events_per_batch),
        "failOnDataLoss": str(config.fail_on_data_loss).lower(),
    }


def _unknown(topic: str, start: Mapping[str, Any]) -> dict[str, str]:
    """Where Spark begins as long as the cluster has not told the offsets."""
    if start["kind"] == "time":
        later = {"startingOffsetsByTimestampStrategy": "latest"}  # else it fails if nothing is that new
        return {"startingTimestamp": str(start["time_ns"] // 1_000_000), **later}
    if start["kind"] == "positions":
        return {"startingOffsets": _json({topic: {p: max(0, at - 1) for p, at in start["positions"].items()}})}
    return {"startingOffsets": start["kind"]}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
