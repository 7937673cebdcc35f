"""The Kafka binding of the Python SDK, release line 2, as a program: run inside its environment.

`write MODE < events` prints the records that the SDK makes of events; `read < records` the events that it reads there.
Bytes go as Base64.
"""

import json
import sys
from base64 import b64decode, b64encode
from datetime import datetime

from cloudevents.core.bindings.kafka import KafkaMessage, from_kafka, to_binary, to_structured
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

FORMAT = JSONFormat()


def event(given):
    attributes = dict(given["attributes"])
    if "time" in attributes:
        attributes["time"] = datetime.fromisoformat(attributes["time"])
    made = CloudEvent(attributes, b64decode(given["bytes"]) if "bytes" in given else given.get("data"))
    if "time" not in given["attributes"]:
        del made.get_attributes()["time"]  # the SDK adds the present time
    return made


def text(value):
    return b64encode(value.encode() if isinstance(value, str) else value).decode()


def written(given, mode):
    message = (to_structured if mode == "structured" else to_binary)(event(given), FORMAT)
    headers = [(name, text(value)) for name, value in message.headers.items()]
    return {"headers": headers, "key": message.key and text(message.key), "value": text(message.value)}


def understood(record):
    headers = {name: b64decode(value) for name, value in record["headers"]}
    key = record["key"] and b64decode(record["key"])
    read = from_kafka(KafkaMessage(headers, key, b64decode(record["value"])), FORMAT)
    data = read.get_data()
    told = {"bytes": b64encode(data).decode()} if isinstance(data, bytes) else {"data": data}
    attributes = {k: v.isoformat() if isinstance(v, datetime) else v for k, v in read.get_attributes().items()}
    return {"attributes": attributes, **told}


def main(command, *arguments):
    given = json.load(sys.stdin)
    return [written(g, *arguments) for g in given] if command == "write" else [understood(g) for g in given]


print(json.dumps(main(*sys.argv[1:])))
