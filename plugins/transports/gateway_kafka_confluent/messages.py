"""Converts librdkafka's messages to records, by partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import methodcaller
from typing import Any, NamedTuple

from confluent_kafka import KafkaError
from gateway_kafka.client import Partition, Record

from .assignment import Assignment

# it may return a list with an error set, which only a caller in C is sure to notice
_read = methodcaller("headers")
_UNREADABLE = (("unreadable", b"none of the headers can be read: a name is not UTF-8"),)


def headers_of(message: Any) -> Sequence[tuple[str, bytes | None]]:
    """If a header's name is not UTF-8, confluent-kafka can't read any header. A single placeholder then takes their
    place. Such a record is not an event, but must not block its partition."""
    try:
        return _read(message) or ()
    except (SystemError, UnicodeError):
        return _UNREADABLE


class Polled(NamedTuple):
    """The result of a poll: the assignments that have new `records`, the new end of each partition that has one, the
    partitions whose next offset is not available (with that offset), and all other errors."""

    touched: list[Assignment]
    ends: dict[Partition, int]
    resets: dict[Partition, int | None]
    errors: list[Any]


def sort_messages(messages: Iterable[Any], ours: Mapping[Partition, Assignment]) -> Polled:
    """Adds each message to the `records` of its assignment. Messages of other partitions are dropped."""
    polled = Polled([], {}, {}, [])
    for message in messages:
        name = (message.topic(), message.partition())
        if (error := message.error()) is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                polled.ends[name] = message.offset()
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                polled.resets[name] = message.offset()
            else:
                polled.errors.append(error)
            continue
        assignment = ours.get(name)
        if assignment is None:
            continue
        records = assignment.records
        if not records:
            polled.touched.append(assignment)
        records.append(
            Record(message.offset(), message.timestamp()[1], message.key(), message.value(), headers_of(message))
        )
    return polled
