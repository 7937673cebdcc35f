"""The Python SDK, release line 2, as a program: run inside its environment by test_sdks.py.

`send URL VERSION MODE < events` posts each event as the SDK writes it and prints what was sent and answered.
`receive < requests` prints each event as the SDK reads it.
"""

import base64
import http.client
import json
import sys
from datetime import datetime
from importlib.metadata import version
from urllib.parse import urlsplit

from cloudevents.core.bindings.http import HTTPMessage, from_http, to_binary, to_structured
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v03.event import CloudEvent as Event03
from cloudevents.core.v1.event import CloudEvent as Event10

FORMAT = JSONFormat()


def event(given, specversion):
    data = base64.b64decode(given["bytes"]) if "bytes" in given else given.get("data")
    attributes = {**given["attributes"], "specversion": specversion}
    if "time" in attributes:
        attributes["time"] = datetime.fromisoformat(attributes["time"])
    made = {"0.3": Event03, "1.0": Event10}[specversion](attributes, data)
    if "time" not in given["attributes"]:
        del made.get_attributes()["time"]  # the SDK adds the present time
    return made


def messages(events, mode):
    if mode == "batch":  # no function of its own: an array of the events that it writes
        body = b"[" + b",".join(FORMAT.write(e) for e in events) + b"]"
        yield HTTPMessage({"content-type": "application/cloudevents-batch+json"}, body)
        return
    for one in events:
        yield to_structured(one, FORMAT) if mode == "structured" else to_binary(one, FORMAT)


def post(url, message):
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    connection.request("POST", parts.path, message.body, message.headers)
    answer = connection.getresponse()
    said = answer.read().decode()
    connection.close()
    return {
        "status": answer.status,
        "said": said,
        "headers": message.headers,
        "body": base64.b64encode(message.body).decode(),
    }


def understood(request):
    read = from_http(HTTPMessage(request["headers"], base64.b64decode(request["body"])), FORMAT)
    data = read.get_data()
    told = {"bytes": base64.b64encode(data).decode()} if isinstance(data, bytes) else {"data": data}
    attributes = {k: v.isoformat() if isinstance(v, datetime) else v for k, v in read.get_attributes().items()}
    return {"attributes": attributes, **told}


def main(command, *arguments):
    given = json.load(sys.stdin)
    if command == "send":
        url, specversion, mode = arguments
        return [post(url, m) for m in messages([event(g, specversion) for g in given], mode)]
    return [understood(request) for request in given]


print(json.dumps({"sdk": version("cloudevents"), "result": main(*sys.argv[1:])}))
