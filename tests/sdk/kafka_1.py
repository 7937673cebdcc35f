"""The Kafka binding of the Python SDK, release line 1, as a program: run inside its environment.

`write MODE < events` prints the records that the SDK makes of events; `read < records` the events that it reads there.
Bytes go as Base64.
"""

import json
import sys
from base64 import b64decode, b64encode

from cloudevents.http import CloudEvent
from cloudevents.kafka import KafkaMessage, from_binary, from_structured, to_binary, to_structured


def event(given):
    data = b64decode(given["bytes"]) if "bytes" in given else given.get("data")
    made = CloudEvent(given["attributes"], data)
    if "time" not in given["attributes"]:
        del made["time"]  # the SDK adds the present time
    return made


def text(value):
    return b64encode(value.encode() if isinstance(value, str) else value).decode()


def marshalled(data):
    return json.dumps(data) if isinstance(data, dict) else data


def unmarshalled(data):
    return json.loads(data) if data[:1] == b"{" else data


def written(given, mode):
    message = to_structured(event(given)) if mode == "structured" else to_binary(event(given), marshalled)
    headers = dict(message.headers)
    if mode == "structured":  # this line puts the data's type there, which makes the record none of structured mode
        headers["content-type"] = b"application/cloudevents+json; charset=UTF-8"
    return {
        "headers": [(name, text(value)) for name, value in headers.items()],
        "key": message.key and text(message.key),
        "value": text(message.value),
    }


def understood(record):
    headers = {name: b64decode(value) for name, value in record["headers"]}
    key = record["key"] and b64decode(record["key"]).decode()
    structured = headers.get("content-type", b"").startswith(b"application/cloudevents")
    if structured:  # this line takes every header for an attribute, and this one for the data's type
        del headers["content-type"]
    message = KafkaMessage(headers, key, b64decode(record["value"]))
    read = from_structured(message) if structured else from_binary(message, data_unmarshaller=unmarshalled)
    told = {"bytes": text(read.data)} if isinstance(read.data, bytes) else {"data": read.data}
    return {"attributes": {k: v for k, v in read.get_attributes().items() if v is not None}, **told}


def main(command, *arguments):
    given = json.load(sys.stdin)
    return [written(g, *arguments) for g in given] if command == "write" else [understood(g) for g in given]


print(json.dumps(main(*sys.argv[1:])))
