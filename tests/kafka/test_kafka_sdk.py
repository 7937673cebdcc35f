"""The Kafka binding of the official Python SDK: what it writes the gateway reads, and the other way round."""

from __future__ import annotations

import json
import subprocess
from base64 import b64decode, b64encode
from datetime import datetime
from typing import Any

import pytest

from tests.kafka_lab import ALL_BYTES, ONE, Lab
from tests.sdk.environments import HERE, python_sdk

pytestmark = [pytest.mark.xdist_group("kafka-binding"), pytest.mark.timeout(900)]

CASES: list[dict[str, Any]] = [
    {
        "attributes": {
            "subject": "Zoë ☃ 100%",
            "partitionkey": "pk é",
            "datacontenttype": "application/json",
            "time": "2026-01-02T03:04:05.120000+02:00",
        },
        "data": {"text": "é", "n": 1.5, "list": [None, True]},
    },
    {"attributes": {"datacontenttype": "text/plain"}, "data": "é\r\n"},
    {"attributes": {"datacontenttype": "application/octet-stream"}, "bytes": b64encode(ALL_BYTES).decode()},
]
# line 1 keeps the partition key in the record's key alone
TRAVELS_AS_KEY = {(1, "binary")}


def sdk(line: int, *arguments: str, given: object) -> Any:
    command = [str(python_sdk(line)), "-I", str(HERE / f"kafka_{line}.py"), *arguments]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def same(read: dict[str, Any], event: dict[str, Any]) -> bool:
    """Whether these are the same event. An SDK may hand over text as bytes, and adds a time where there is none."""

    def canonical(one: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        attributes = {n: v for n, v in one["attributes"].items() if n not in ("time", "specversion")}
        if "time" in event["attributes"]:
            attributes["time"] = datetime.fromisoformat(one["attributes"]["time"])
        data = b64decode(one["bytes"]) if "bytes" in one else one["data"]
        return attributes, data.encode() if isinstance(data, str) else data

    return canonical(read) == canonical(event)


@pytest.mark.spec("KB-01", "KB-02", "KB-07")
@pytest.mark.parametrize("mode", ["binary", "structured"])
@pytest.mark.parametrize("line", [1, 2])
def test_what_the_python_sdk_writes_is_read_and_the_other_way_round(lab: Lab, line: int, mode: str) -> None:
    events = [
        {**case, "attributes": {**case["attributes"], "source": "/sdk", "type": "t", "route": "tohttp", "id": lab.id()}}
        for case in CASES
    ]
    made = sdk(line, "write", mode, given=events)
    for record in made:
        lab.put(
            b64decode(record["value"]),
            [(name, b64decode(value)) for name, value in record["headers"]],
            record["key"] and b64decode(record["key"]),
        )
    for event in events:
        got = lab.event(event["attributes"]["id"])
        data = {"bytes": got.pop("data_base64")} if "data_base64" in got else {"data": got.pop("data")}
        if (line, mode) in TRAVELS_AS_KEY and "partitionkey" in event["attributes"]:
            got["partitionkey"] = event["attributes"]["partitionkey"]
        assert same({"attributes": got, **data}, event)
    for event in events:
        document = {**event["attributes"], "specversion": "1.0"}
        document |= {"data_base64": event["bytes"]} if "bytes" in event else {"data": event["data"]}
        bridge = "partitionkey" if mode == "binary" else "structured"
        assert lab.post(bridge, {"content-type": ONE}, json.dumps(document).encode()).status_code == 202
    records = [lab.record(event["attributes"]["id"]) for event in events]
    given = [
        {
            "headers": [(name.decode(), b64encode(value or b"").decode()) for name, value in record.headers],
            "key": record.key and b64encode(record.key).decode(),
            "value": b64encode(record.value or b"").decode(),
        }
        for record in records
    ]
    for read, event in zip(sdk(line, "read", given=given), events, strict=True):
        assert same(read, event), (read, event)
