"""The Python SDK, release line 1, as a program: run inside its environment by test_sdks.py.

`send URL VERSION MODE < events` posts each event as the SDK writes it and prints what was sent and answered.
`receive < requests` prints each event as the SDK reads it.
"""

import base64
import http.client
import json
import sys
from importlib.metadata import version
from urllib.parse import urlsplit

from cloudevents.conversion import to_binary, to_json, to_structured
from cloudevents.http import CloudEvent, from_http


def event(given, specversion):
    data = base64.b64decode(given["bytes"]) if "bytes" in given else given.get("data")
    made = CloudEvent({**given["attributes"], "specversion": specversion}, data)
    if "time" not in given["attributes"]:
        del made["time"]  # the SDK would add the present time
    return made


def header(value):
    """This line leaves header values as Python values in Unicode: JSON's spelling of them, in UTF-8."""
    return (value if isinstance(value, str) else json.dumps(value)).encode()


def messages(events, mode):
    if mode == "batch":  # no function of its own: an array of the events that it writes
        yield {"content-type": "application/cloudevents-batch+json"}, b"[" + b",".join(map(to_json, events)) + b"]"
        return
    for one in events:
        if mode == "structured":
            yield to_structured(one)
        elif isinstance(one.data, dict | list):
            yield to_binary(one)
        else:
            yield to_binary(one, lambda data: b"" if data is None else data)


def post(url, headers, body):
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    connection.request("POST", parts.path, body, {k: header(v) for k, v in headers.items()})
    answer = connection.getresponse()
    said = answer.read().decode()
    connection.close()
    return {
        "status": answer.status,
        "said": said,
        "headers": {k: header(v).decode() for k, v in headers.items()},
        "body": base64.b64encode(body).decode(),
    }


def understood(request):
    read = from_http(request["headers"], base64.b64decode(request["body"]))
    data = read.data
    told = {"bytes": base64.b64encode(data).decode()} if isinstance(data, bytes) else {"data": data}
    return {"attributes": {k: v for k, v in read.get_attributes().items() if v is not None}, **told}


def main(command, *arguments):
    given = json.load(sys.stdin)
    if command == "send":
        url, specversion, mode = arguments
        return [post(url, *m) for m in messages([event(g, specversion) for g in given], mode)]
    return [understood(request) for request in given]


print(json.dumps({"sdk": version("cloudevents"), "result": main(*sys.argv[1:])}))
