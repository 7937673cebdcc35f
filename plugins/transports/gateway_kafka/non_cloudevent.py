"""Wraps records that are not CloudEvents in events: for `not_an_event: wrap`, and for the dead letter.

| attribute | from the record |
| --- | --- |
| `specversion`, `type` | `1.0`, and the type that the config says |
| `source` | `kafka:/<topic>`. It has no address of the cluster, since addresses change and differ between clients |
| `id` | `<partition>:<offset>`: the same record always gives the same event |
| `time` | its timestamp, to the millisecond, in UTC; absent if the record has none |
| `subject` | its key, if that is printable text in UTF-8 |
| `datacontenttype` | its header `content-type`, in any case, if that is a media type and no unknown event format |
| `kafkaheader<name>` | every other header, `<name>` being its name in lower case without all that is not a-z or 0-9 |
| `kafkabinary<name>` | a header whose value is not text (not UTF-8, or with control characters), in Base64 |

The data is the value and the event's key is the key, byte for byte; a null stays null. If several headers map to one
name, the last one counts, as in Kafka's own `lastHeader`. Headers whose value is null, or whose name has no character
of a-z and 0-9, are dropped.
"""

from __future__ import annotations

from gateway_transport.not_an_event import wrapped

from gateway_core.contract.event import Event

from .client import Partition, Record

DEFAULT_TYPE = "dev.tidegate.kafka.record"


def wrap(record: Record, partition: Partition, type: str = DEFAULT_TYPE, received_ns: int = 0) -> Event:
    """The record as a CloudEvents 1.0 event, see above. Works for any record."""
    topic, number = partition
    return wrapped(
        id=f"{number}:{record.offset}",
        source=f"kafka:/{topic}",
        type=type,
        data=record.value,
        headers=record.headers,
        prefix="kafka",
        key=record.key,
        timestamp_ms=record.timestamp_ms,
        received_ns=received_ns,
    )
