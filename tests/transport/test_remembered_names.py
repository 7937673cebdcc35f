"""What is remembered of names that strangers choose."""

from __future__ import annotations

import gc
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gateway_kafka.client import Record
from gateway_kafka.records import reader
from gateway_mqtt.binding import Publish
from gateway_nats.binding import message_of
from gateway_options.template import NameRules, name_of

from gateway_core.config.registry import Registry
from gateway_core.contract.clock import SystemClock
from gateway_core.contract.component import BuildContext, CodecRef
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event

SIZE, COUNT = 50_000, 300
TOPIC = NameRules("topic", re.compile(r"[a-z.]*"), re.compile(r"[#+]"), 65_535, "letters")


def string(text: str) -> bytes:
    """A string of MQTT."""
    return len(text).to_bytes(2, "big") + text.encode()


def mqtt(name: str) -> None:
    user = b"\x26" + string(name) + string("v")
    size = len(user)
    length = bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14])
    Publish(0x30, string("topic") + length + user + b"data", True)


def nats(name: str) -> None:
    message_of({name: "v", "ce-datacontenttype": name}, b"data")


def kafka() -> Callable[[str], None]:
    context = BuildContext("test", Path(), SystemClock(), Registry.installed())
    read = reader(CodecRef("cloudevents"), context)

    def one(name: str) -> None:
        with pytest.raises(Refused):
            read(Record(0, 0, None, b"data", [(name, b"v")]))

    return one


def template() -> Callable[[str], None]:
    topic = name_of("t.{subject}", TOPIC)

    def one(name: str) -> None:
        topic(Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "subject": name}))

    return one


WAYS: dict[str, Callable[[], Any]] = {"mqtt": lambda: mqtt, "nats": lambda: nats, "kafka": kafka, "template": template}


@pytest.mark.slow
@pytest.mark.spec("SAFE-117")
@pytest.mark.parametrize("way", WAYS)
def test_long_names_of_strangers_are_not_remembered(way: str) -> None:
    one = WAYS[way]()
    one("x-short")
    gc.collect()
    tracemalloc.start(1)
    try:
        for n in range(COUNT):
            one(f"x-{n}-".ljust(SIZE, "a"))
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 20 * SIZE
    finally:
        tracemalloc.stop()
