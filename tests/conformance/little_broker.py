"""A broker in a hundred lines, right as far as the checks go, with faults that a test can plant."""

from __future__ import annotations

import http.client
import itertools
import threading
from collections.abc import Collection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from urllib.parse import urlsplit

import gateway_cloudevents.plugin

from gateway_core.clock import SystemClock
from gateway_core.component import BuildContext, CodecRef
from gateway_core.errors import Refused
from gateway_core.event import Event, Message
from gateway_core.interfaces import Codec
from gateway_core.registry import Registry

RETRIED = {404, 408, 409, 429}


def make_codec() -> Codec:
    registry = Registry()
    registry.add("cloudevents", gateway_cloudevents.plugin)
    codec: Codec = registry.build(CodecRef("cloudevents"), BuildContext("test", Path(), SystemClock(), registry))
    return codec


class LittleBroker:
    """`with LittleBroker(sink_url, {"upgrades"}) as b:` takes events at `b.url` and posts them to `sink_url`."""

    def __init__(self, sink_url: str, faults: Collection[str] = ()) -> None:
        self.faults = frozenset(faults)
        self._sink = urlsplit(sink_url)
        self._codec = make_codec()
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
        if path != "/in" and "any path" not in self.faults:
            return 404, {}, ""
        if method == "OPTIONS":
            if "options queues" in self.faults:
                self._take(message)
            return 200, {} if "no allow" in self.faults else {"Allow": "POST, OPTIONS"}, ""
        if method != "POST" and "any method" not in self.faults:
            return 405, {} if "no allow" in self.faults else {"Allow": "POST"}, ""
        fault = self._take(message)
        if not fault or "takes anything" in self.faults:
            return 202, {}, ""
        return (500 if "fails on nonsense" in self.faults else 400), {}, "" if "silent" in self.faults else fault

    def _take(self, message: Message) -> str:
        """Begins to deliver; returns what is wrong where the message holds no event."""
        try:
            events = self._codec.decode(message)
        except Refused as e:
            return f"{e.attribute}: {e.detail}"
        for event in events:
            threading.Thread(target=self._deliver, args=(event,), daemon=True).start()
        return ""

    # -- delivery -----------------------------------------------------------------------------------------------------

    def _deliver(self, event: Event) -> None:
        if "upgrades" in self.faults:
            event = event.with_attributes(specversion="1.0")
        if "adds time" in self.faults:
            event = event.with_attributes(time="2026-01-01T00:00:00Z")
        for attempt in itertools.count():
            wait = self._attempt(event, attempt)
            if wait is None or attempt == 10 or self._stopped.wait(wait):
                return

    def _attempt(self, event: Event, attempt: int, path: str = "") -> float | None:
        """One attempt; returns how long to wait for the next, None where there is none."""
        wait = 0.3 if "even waits" in self.faults else 0.05 * 2**attempt
        message = self._codec.encode(event)
        headers = {n.decode(): v.decode() for n, v in message.headers}
        if "no prefer" not in self.faults:
            headers["Prefer"] = "reply"
        connection = http.client.HTTPConnection(str(self._sink.hostname), self._sink.port, timeout=20)
        try:
            connection.request("PUT" if "puts" in self.faults else "POST", path or "/", message.body or b"", headers)
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException, ValueError):
            return None if "gives up without answer" in self.faults else wait
        finally:
            connection.close()
        status = answer.status
        if "follows redirects" in self.faults and status in (307, 308):
            return self._attempt(event, attempt, urlsplit(answer.headers["location"]).path)
        if 200 <= status < 300:
            replies = status == 200 or ("takes 202 for a reply" in self.faults and status == 202)
            return wait if replies and not self._reply(answer, body, event) else None
        if "no retry-after" not in self.faults and answer.headers["retry-after"]:
            wait = float(answer.headers["retry-after"])
        return wait if self._retried(status) else None

    def _retried(self, status: int) -> bool:
        if status == 400 and "retries 400" in self.faults:
            return True
        if status < 200:
            return "retries 1xx" in self.faults
        if status >= 500 and "never retries" in self.faults:
            return False
        return status in RETRIED or status >= 500

    def _reply(self, answer: http.client.HTTPResponse, body: bytes, event: Event) -> bool:
        """Takes a reply, where there is one; False where it is malformed."""
        headers = [(n.lower().encode(), v.encode()) for n, v in answer.getheaders()]
        kinds = [v for n, v in headers if n == b"content-type"]
        if not any(n.startswith(b"ce-") for n, _ in headers) and not any(b"cloudevents" in k for k in kinds):
            return True
        try:
            (reply,) = self._codec.decode(Message(headers, body))
        except Refused:
            return "ignores malformed replies" in self.faults
        if "traceparent" in event.attributes and "loses the trace" not in self.faults:
            reply = reply.with_attributes(traceparent=event.attributes["traceparent"])
        if "drops replies" not in self.faults:
            threading.Thread(target=self._deliver, args=(reply,), daemon=True).start()
        return True

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        broker = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                headers = [(n.lower().encode(), v.encode("latin-1")) for n, v in self.headers.items()]
                message = Message(headers, body)
                status, more, text = broker.answer(self.command, self.path, message)
                if "upgrade" in self.headers and "minds upgrade" in broker.faults:
                    status = 426
                self.send_response(status)
                for name, value in more.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

            do_POST = do_GET = do_PUT = do_OPTIONS = do_DELETE = do_PATCH = _serve

            def log_message(self, format: str, *args: object) -> None:
                return

        return Handler
