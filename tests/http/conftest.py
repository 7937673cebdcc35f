"""A small codec, an in-memory intake and raw sockets, for the http plugin's tests."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import anyio
import gateway_http.plugin
import pytest

from gateway_core.config.registry import Registry
from gateway_core.contract.clock import Clock, SystemClock
from gateway_core.contract.component import BuildContext, Component, Config
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
from gateway_core.contract.hookspecs import hookimpl
from gateway_core.contract.interfaces import Accepted, Admission, Intake, Outcome, Sink, Source
from tests.twins import twins

STRUCTURED = b"application/cloudevents+json"
BATCH = b"application/cloudevents-batch+json"


@pytest.fixture(params=twins("uvloop", "asyncio"))
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


@pytest.fixture(params=twins("native", "httpx"))
def client(request: pytest.FixtureRequest) -> str:
    """The HTTP client of a sink."""
    return str(request.param)


class TinyCodec:
    """Just enough CloudEvents: binary, structured and batch mode; `id` must be there; type `explode` is a bug,
    and `long` is refused with many words."""

    def decode(self, message: Message) -> list[Event]:
        kind = message.header(b"content-type") or b""
        body = message.body or b""
        try:
            if kind.startswith(BATCH):
                return [self._event(a) for a in json.loads(body)]
            if kind.startswith(STRUCTURED):
                return [self._event(json.loads(body))]
        except ValueError as e:
            raise Refused(f"not JSON: {e}") from e
        attributes = {n[3:].decode(): v.decode("latin-1") for n, v in message.headers if n[:3] == b"ce-"}
        if kind:
            attributes["datacontenttype"] = kind.decode("latin-1")
        event = self._event(attributes)
        event.data = body
        return [event]

    def _event(self, attributes: dict[str, Any]) -> Event:
        if "id" not in attributes:
            raise Refused("id is missing", attribute="id", rule="CloudEvents 1.0.2 spec.md", title="Not an event")
        if attributes.get("type") == "long":
            raise Refused("x" * 1000)
        if attributes.get("type") == "explode":
            raise ZeroDivisionError("secret inner text")
        return Event(attributes)

    def encode(self, event: Event) -> Message:
        headers = [(b"ce-" + k.encode(), str(v).encode()) for k, v in event.attributes.items()]
        return Message([*headers, (b"content-type", b"application/json")], event.data)


class NoOptions(Config):
    pass


class TinyPlugin:
    @hookimpl
    def gateway_codecs(self) -> list[Component]:
        return [Component("cloudevents", "A codec for tests.", NoOptions, lambda options, context: TinyCodec())]


class MemoryIntake:
    """Keeps what it takes. `result` is what `done` gets; with `hold` the test calls `release` itself."""

    admissions: Sequence[Admission] = ()

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.refused: list[Refused] = []
        self.result: BaseException | None = None
        self.hold = False
        self.held: list[Accepted] = []

    def accept(self, events: Sequence[Event], done: Accepted) -> None:
        self.events.extend(events)
        if self.hold:
            self.held.append(done)
        else:
            done(self.result)

    def refuse(self, error: Refused) -> None:
        self.refused.append(error)

    def ids(self) -> list[str]:
        return [e.attributes["id"] for e in self.events]


class Reader:
    """The client's end of a raw connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def write(self, data: bytes) -> None:
        self.writer.write(data)

    async def response(self) -> tuple[int, dict[str, str], bytes]:
        """The next response; `EOFError` where the connection ends before it."""
        with anyio.fail_after(60):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in head[1:] if line)}
            body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return int(head[0].split()[1]), headers, body

    async def rest(self) -> bytes:
        """All until the server closes."""
        with anyio.fail_after(60):
            try:
                return await self.reader.read()
            except ConnectionResetError:
                return b""

    def close(self) -> None:
        self.writer.close()


class Kit:
    """Builds sources and sinks the way that a gateway does."""

    def __init__(self, folder: Path) -> None:
        self.registry = Registry()
        self.registry.add("http", gateway_http.plugin)
        self.registry.add("tiny", TinyPlugin())
        self.folder = folder

    def context(self, **changes: Any) -> BuildContext:
        given = {"owner": "here", "data_dir": self.folder, "clock": SystemClock(), "registry": self.registry}
        return BuildContext(**{**given, **changes})

    def build(self, kind: Any, options: dict[str, Any], **changes: Any) -> Any:
        offer = self.registry.find(kind, "http")
        assert offer is not None
        return offer.component.build(offer.component.model.model_validate(options), self.context(**changes))

    @asynccontextmanager
    async def source(
        self, intake: MemoryIntake, owner: str = "here", clock: Clock | None = None, **options: Any
    ) -> AsyncIterator[Source]:
        changes: dict[str, Any] = {"owner": owner, "clock": clock or SystemClock()}
        source: Source = self.build("source", {"listen": "127.0.0.1:0", "hosts": ["*"], **options}, **changes)
        async with anyio.create_task_group() as tasks:
            await source.start(cast(Intake, intake), tasks)
            try:
                yield source
            finally:
                with anyio.CancelScope(shield=True):
                    await source.stop()
                tasks.cancel_scope.cancel()

    @asynccontextmanager
    async def sink(self, url: str, wants_reply: bool = False, **options: Any) -> AsyncIterator[Sink]:
        sink: Sink = self.build("sink", {"url": url, **options}, wants_reply=wants_reply)
        async with anyio.create_task_group() as tasks:
            await sink.start(tasks)
            try:
                yield sink
            finally:
                with anyio.CancelScope(shield=True):
                    await sink.stop()
                tasks.cancel_scope.cancel()

    @asynccontextmanager
    async def connect(self, source: Source, tls: ssl.SSLContext | None = None) -> AsyncIterator[Reader]:
        parts = urlsplit(source.address)
        name = "localhost" if tls else None
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=tls, server_hostname=name)
        try:
            yield Reader(reader, writer)
        finally:
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()

    async def send(self, sink: Sink, event: Event | None = None, timeout_s: float = 20.0) -> Outcome:
        """One attempt, awaited."""
        result: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        sink.send(event or Event({"id": "1", "type": "t", "specversion": "1.0"}, b"{}"), timeout_s, result.set_result)
        with anyio.fail_after(30):
            return await result

    async def until(self, true: Callable[[], bool]) -> None:
        with anyio.fail_after(60):
            while not true():  # noqa: ASYNC110
                await anyio.sleep(0.005)


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return Kit(tmp_path)


@pytest.fixture
def intake() -> MemoryIntake:
    return MemoryIntake()


def request(id: str = "1", *, body: bytes = b"{}", extra: bytes = b"", line: bytes = b"POST / HTTP/1.1") -> bytes:
    """A well-formed request, as bytes."""
    head = b"%s\r\nHost: x\r\nce-id: %s\r\n%sContent-Length: %d\r\n\r\n" % (line, id.encode(), extra, len(body))
    return head + body


@pytest.fixture(name="request_bytes")
def _request_bytes() -> Callable[..., bytes]:
    return request
