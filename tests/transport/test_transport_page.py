"""What docs/howto/write-a-transport.md says is as it says."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from gateway_cloudevents.bindings import rule
from gateway_testing.suites import Kit

from gateway_core.contract.component import Binding
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "write-a-transport.md").read_text()


@pytest.fixture
def binding() -> Binding:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    found: dict[str, Any] = {}
    exec(compile(block, "write-a-transport.md", "exec"), found)
    stomp: Binding = found["STOMP"]
    return stomp


def test_its_binding_does_what_the_table_says(binding: Binding, tmp_path: Path) -> None:
    codec = Kit(tmp_path).codec("cloudevents", binding=binding)
    event = Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "subject": "100 % \u20ac"})
    assert (b"ce-subject", "100 % \u20ac".encode()) in codec.encode(event).headers
    reserved = codec.encode(event.with_attributes(receipt="r"))
    assert [name for name, _ in reserved.headers] == [b"content-type"]
    assert rule(binding, "attributes") == "CloudEvents STOMP binding of Example Inc. 1.2, section 3.1"
    with pytest.raises(Refused):
        codec.decode(Message([(b"ce-id", b"1")], b""))


def test_its_fields_are_all_that_a_binding_has() -> None:
    table = PAGE.partition("| field | what it says |")[2]
    named = {name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    assert named == set(Binding.__slots__)


def test_what_it_names_exists() -> None:
    rows = re.findall(r"^\| (`gateway_\w+\.\w+\.\w+`.*?) \|", PAGE, re.MULTILINE)
    assert len(rows) == 7
    for row in rows:
        first, *others = re.findall(r"`([\w.]+)`", row)
        module, _, name = first.rpartition(".")
        for found in (name, *others):
            assert hasattr(import_module(module), found), found
