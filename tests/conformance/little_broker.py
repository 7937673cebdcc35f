"""A small broker, right as far as the checks go, with faults that a test can plant."""

from __future__ import annotations

import http.client
import itertools
import json
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from urllib.parse import unquote, urlsplit

import gateway_cloudevents.plugin
from gateway_cloudevents.bindings import HTTP

from gateway_core.config.registry import Registry
from gateway_core.contract.clock import SystemClock
from gateway_core.contract.component import BuildContext, CodecRef
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Codec

RETRIED = {404, 408, 409, 429}
CORE = {"specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema", "schemaurl"}


def make_codec() -> Codec:
    registry = Registry()
    registry.add("cloudevents", gateway_cloudevents.plugin)
    context = BuildContext("test", Path(), SystemClock(), registry, binding=HTTP)
    codec: Codec = registry.build(CodecRef("cloudevents"), context)
    return codec


@dataclass(frozen=True)
class LittleTrigger:
    """A trigger with a path at the sink, and perhaps one of its dead letter. `conditions` are dialects, attributes and
    texts; all must hold, or with `either` any."""

    path: str
    dead: str = ""
    conditions: Sequence[tuple[str, str, str]] = ()
    either: bool = False

    def wants(self, event: Event, faults: Collection[str]) -> bool:
        if not self.conditions or "no filter" in faults:
            return True
        join = any if self.either or "filters are alternatives" in faults else all
        return join(self._holds(event, *condition, faults) for condition in self.conditions)

    def _holds(self, event: Event, dialect: str, name: str, text: str, faults: Collection[str]) -> bool:
        found = str(event.attributes.get(name, ""))
        if dialect == "exact" or "prefixes are whole" in faults:
            return found == text
        return found.startswith(text) if dialect == "prefix" else found.endswith(text)


class LittleBroker:
    """`with LittleBroker(sink_url, {"upgrades"}) as b:` takes events at `b.url` and posts them to `sink_url`."""

    def __init__(self, sink_url: str, faults: Collection[str] = (), triggers: Sequence[LittleTrigger] = ()) -> None:
        self._triggers = triggers or [LittleTrigger("/")]
        self.faults = frozenset(faults)
        self._sink = urlsplit(sink_url)
        self._codec = make_codec()
        self._seen: frozenset[bytes] = frozenset()
        self._stopped = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler(), bind_and_activate=False)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._server.request_queue_size = 256
        self._server.server_bind()
        self._server.server_activate()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/in"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> LittleBroker:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        self._stopped.set()
        self._server.shutdown()
        self._server.server_close()

    # -- the ingress ------------------------------------------------------------------------------------------------

    def answer(self, method: str, path: str, message: Message) -> tuple[int, dict[str, str], str]:
        headers = dict(message.headers)
        kind = headers.get(b"content-type", b"").decode()
        if path != "/in":
            return 400 if "path is 400" in self.faults else 404, {}, ""
        if method == "OPTIONS":
            if "options queues" in self.faults:
                self._take(message)
            return 200, {} if "no allow" in self.faults else {"Allow": "POST, OPTIONS"}, ""
        if method != "POST" and "any method" not in self.faults:
            return 405, {} if "no allow" in self.faults else {"Allow": "POST"}, ""
        if status := self._picky(headers, kind, message.body or b""):
            return status, {}, ""
        if "takes version 2" in self.faults and headers.get(b"ce-specversion") in (b"2.0", b"19.0"):
            return 202, {}, ""
        if "takes empty attributes" in self.faults and (
            b"" in headers.values() or b':""' in (message.body or b"").replace(b" ", b"")
        ):
            return 202, {}, ""
        fault = self._take(message)
        if not fault or "takes anything" in self.faults:
            more = {"ce-id": "1"} if "answers with an event" in self.faults else {}
            return 202, more, ""
        if "closes on nonsense" in self.faults:
            return 0, {}, ""
        return (500 if "fails on nonsense" in self.faults else 400), {}, "" if "silent" in self.faults else fault

    def _picky(self, headers: dict[bytes, bytes], kind: str, body: bytes) -> int:
        """The status of an answer that a broker without this fault would not give; 0 for none."""
        id = headers.get(b"ce-id", b"")
        again, self._seen = id in self._seen, self._seen | {id}
        cases: dict[str, bool] = {
            "case-sensitive media type": kind.lower().startswith("application/cloudevents") and kind != kind.lower(),
            "no duplicates": b"-" in id and again,
            "small": len(body) > 10_000,
            "no XML": "xml" in kind,
            "breaks batches": "cloudevents-batch" in kind,
            "no 0.3": headers.get(b"ce-specversion") == b"0.3" or b'"specversion":"0.3"' in body,
        }
        return 400 if any(name in self.faults and found for name, found in cases.items()) else 0

    def _read(self, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """The headers of a request as a broker with faults of reading would understand them."""
        read = []
        for name, value in headers:
            if name.startswith(b"ce-"):
                if "no unquote" in self.faults and value.startswith(b'"'):
                    value = b"%22" + value[1:-1] + b"%22"
                if "no percent decode" in self.faults:
                    value = value.replace(b"%", b"%25")
            read.append((name, value))
        return read

    def _take(self, message: Message) -> str:
        """Begins to deliver; returns what is wrong where the message holds no event."""
        try:
            events = self._codec.decode(Message(self._read(message.headers), message.body))
        except Refused as e:
            return f"{e.attribute}: {e.detail}"
        for event in events:
            self._route(event)
        return ""

    def _route(self, event: Event) -> None:
        for trigger in self._triggers:
            if trigger.wants(event, self.faults):
                threading.Thread(target=self._deliver, args=(event, trigger), daemon=True).start()

    # -- delivery -----------------------------------------------------------------------------------------------------

    def _deliver(self, event: Event, trigger: LittleTrigger) -> None:
        if "upgrades" in self.faults:
            event = event.with_attributes(specversion="1.0")
        if "adds time" in self.faults:
            event = event.with_attributes(time="2026-01-01T00:00:00Z")
        event = self._altered(event)
        last = 2 if "gives up after two" in self.faults else 10
        for attempt in itertools.count():
            taken: list[bool] = []
            wait = self._attempt(event, attempt, trigger.path, taken)
            if wait is None or attempt == last or self._stopped.wait(wait):
                break
        lost = not taken or "always dead-lettered" in self.faults
        if trigger.dead and lost and "no dead letter" not in self.faults:
            self._attempt(event, 0, trigger.dead)

    def _altered(self, event: Event) -> Event:
        """The event as a broker with faults of keeping would deliver it."""
        attributes, data = dict(event.attributes), event.data
        if "lower-cases content types" in self.faults and "datacontenttype" in attributes:
            attributes["datacontenttype"] = attributes["datacontenttype"].lower()
        if "times in UTC" in self.faults and "+02:00" in str(attributes.get("time", "")):
            attributes["time"] = "2026-01-02T01:04:05.10Z"
        if "new trace" in self.faults and "traceparent" in attributes:
            attributes["traceparent"] = "00-11111111111111111111111111111111-2222222222222222-01"
        if "loses extensions" in self.faults:
            attributes = {n: v for n, v in attributes.items() if n in CORE}
        if "loses data" in self.faults:
            data = None
        if "cuts data" in self.faults and data is not None:
            data = data[:32_768]
        if "rewrites JSON" in self.faults and "json" in str(attributes.get("datacontenttype")) and data:
            data = json.dumps(json.loads(data)).encode()
        return Event(attributes, data, event.json_data)

    def _written(self, headers: dict[str, str]) -> dict[str, str]:
        """The headers of a delivery as a broker with faults of writing would send them."""
        written = dict(headers)
        for name, value in headers.items():
            if name.startswith("ce-"):
                if "no percent encode" in self.faults:
                    written[name] = unquote(value).encode().decode("latin-1")
                if "encodes twice" in self.faults:
                    written[name] = value.replace("%", "%25")
        if "ce-datacontenttype" in self.faults and "content-type" in headers:
            written["ce-datacontenttype"] = headers["content-type"]
        return written

    def _attempt(self, event: Event, attempt: int, path: str, taken_by: list[bool] | None = None) -> float | None:
        """One attempt; returns how long to wait for the next, None where there is none."""
        wait = 0.3 if "even waits" in self.faults else 0.0 if "no waits" in self.faults else 0.05 * 2**attempt
        message = self._codec.encode(event)
        headers = self._written({n.decode(): v.decode() for n, v in message.headers})
        reply = event.attributes.get("type") == "dev.tidegate.conformance.reply"
        if "no prefer" not in self.faults and not (reply and "no prefer on replies" in self.faults):
            headers["Prefer"] = "reply"
        connection = http.client.HTTPConnection(str(self._sink.hostname), self._sink.port, timeout=20)
        try:
            connection.request("PUT" if "puts" in self.faults else "POST", path, message.body or b"", headers)
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException, ValueError):
            return None if "gives up without answer" in self.faults else wait
        finally:
            connection.close()
        status = answer.status
        if "follows redirects" in self.faults and status in (307, 308):
            return self._attempt(event, attempt, urlsplit(answer.headers["location"]).path, taken_by)
        if 200 <= status < 300:
            if taken_by is not None:
                taken_by.append(True)
            if "retries 204" in self.faults and status == 204:
                return wait
            replies = status == 200 or f"takes {status} for a reply" in self.faults
            taken = not replies or self._reply(answer, body, event)
            asks_again = "asks again after a reply" in self.faults and replies and b"reply" in body
            return wait if not taken or asks_again else None
        if "routes replies of failures" in self.faults and status == 400:
            self._reply(answer, body, event)
        if "no retry-after" not in self.faults and answer.headers["retry-after"]:
            wait = float(answer.headers["retry-after"])
        return wait if self._retried(status) else None

    def _retried(self, status: int) -> bool:
        if f"retries {status}" in self.faults:
            return True
        if f"never retries {status}" in self.faults:
            return False
        if status < 200:
            return "retries 1xx" in self.faults
        if status >= 500 and "never retries" in self.faults:
            return False
        return status in RETRIED or status >= 500

    def _reply(self, answer: http.client.HTTPResponse, body: bytes, event: Event) -> bool:
        """Takes a reply, where there is one; False where it is malformed."""
        headers = [(n.lower().encode(), v.encode()) for n, v in answer.getheaders()]
        kinds = [v for n, v in headers if n == b"content-type"]
        if "HTML is a malformed reply" in self.faults and b"text/html" in kinds:
            return False
        if "structured replies are text" in self.faults and any(b"cloudevents" in k for k in kinds):
            return not body.startswith(b"{garbage")
        if not any(n.startswith(b"ce-") for n, _ in headers) and not any(b"cloudevents" in k for k in kinds):
            return True
        try:
            (reply,) = self._codec.decode(Message(self._read(headers), body))
        except Refused:
            return "ignores malformed replies" in self.faults
        if "upgrades replies" in self.faults:
            reply = reply.with_attributes(specversion="1.0")
        if "traceparent" in event.attributes and "loses the trace" not in self.faults:
            reply = reply.with_attributes(traceparent=event.attributes["traceparent"])
        if "drops replies" not in self.faults:
            self._route(reply)
        return True

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        broker = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                if self.headers.get("transfer-encoding") == "chunked":
                    body = self._chunks()
                    if "loses chunks" in broker.faults:
                        body = b"" if b"specversion" not in body else body
                headers = [(n.lower().encode(), v.encode("latin-1")) for n, v in self.headers.items()]
                message = Message(headers, body)
                status, more, text = broker.answer(self.command, self.path, message)
                if "upgrade" in self.headers and "minds upgrade" in broker.faults:
                    status = 426
                if not status:
                    self.close_connection = True
                    return
                self.send_response(status)
                for name, value in more.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

            def _chunks(self) -> bytes:
                pieces = []
                while size := int(self.rfile.readline(), 16):
                    pieces.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                return b"".join(pieces)

            do_POST = do_GET = do_PUT = do_OPTIONS = do_DELETE = do_PATCH = _serve

            def log_message(self, format: str, *args: object) -> None:
                return

        return Handler
