"""A real HTTP subscriber with its own threads, scripted responses, and a record of its requests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType


@dataclass(frozen=True, slots=True)
class Received:
    """A received request: header names in lower case, `time` is `time.monotonic()` at its arrival."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    time: float


Answer = int | tuple[int, Mapping[str, str], bytes] | None
"""A status; or status, headers and body; or None to close the connection without a response."""


class Subscriber:
    """`with Subscriber([503, 503], default=202) as s:` listens on a free loopback port; `s.url` is its address.

    Requests get `answers` in order of arrival, then always `default`, which `answer` may replace later. If
    `decide` is given, it is called first with each `Received`: it returns an answer, or "script" to use the above, and
    may sleep, since each connection has its own thread.
    """

    def __init__(
        self,
        answers: Iterable[Answer] = (),
        default: Answer = 202,
        decide: Callable[[Received], Answer | str] | None = None,
        port: int = 0,
    ) -> None:
        self._answers = iter(answers)
        self.answer = default
        self._decide = decide
        self._changed = threading.Condition()
        self.requests: list[Received] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler(), bind_and_activate=False)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._server.request_queue_size = 256
        self._server.allow_reuse_address = True
        try:
            self._server.server_bind()
            self._server.server_activate()
        except OSError:
            self._server.server_close()
            raise
        self.port: int = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Subscriber:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Stops listening; the port is free afterwards."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def wait_for(self, count: int, timeout_s: float = 60.0) -> list[Received]:
        """Waits for at least `count` requests and returns all so far. Raises `TimeoutError`."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.requests) >= count, timeout_s):
                raise TimeoutError(f"{len(self.requests)} of {count} requests arrived within {timeout_s:g} s")
            return list(self.requests)

    def _answer(self, received: Received) -> Answer:
        with self._changed:
            self.requests.append(received)
            self._changed.notify_all()
        decided = self._decide(received) if self._decide else "script"
        if not isinstance(decided, str):
            return decided
        with self._changed:
            return next(self._answers, self.answer)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        subscriber = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                headers = {k.lower(): v for k, v in self.headers.items()}
                answer = subscriber._answer(Received(self.command, self.path, headers, body, time.monotonic()))
                if answer is None:
                    self.close_connection = True
                    return
                status, extra, content = (answer, {}, b"") if isinstance(answer, int) else answer
                lines = [f"HTTP/1.1 {status} Scripted", *(f"{k}: {v}" for k, v in extra.items())]
                if status >= 200 and status != 204:
                    lines.append(f"content-length: {len(content)}")
                self.wfile.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + content)

            do_POST = do_GET = do_PUT = do_OPTIONS = do_DELETE = do_HEAD = do_PATCH = _serve

            def log_message(self, format: str, *args: object) -> None:
                return

            def handle(self) -> None:
                try:
                    super().handle()
                except (ConnectionError, TimeoutError):
                    self.close_connection = True

        return Handler
