"""`tidegate listen`: fetches events and forwards them to a server on this machine."""

from __future__ import annotations

import json
import random
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import anyio
import httpx
import msgspec
from gateway_cloudevents.bindings import HTTP
from gateway_options.secrecy import shown_url
from gateway_transport.http_retries import is_retried, retry_after_s

from gateway_core.contract.cli.exit_codes import FAULT, OK
from gateway_core.contract.clock import SystemClock
from gateway_core.contract.component import BuildContext, CodecRef
from gateway_core.contract.configs import installed
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Codec
from gateway_core.contract.one_line import one_line

WAIT_S = 20.0
SHORTEST_S, LONGEST_S = 0.2, 10.0
LOCAL_S = (0.2, 2.0)
"""The first and the longest wait for the local server; in seconds."""
DRAIN_S = 10.0
_STRUCTURED = [(b"content-type", b"application/cloudevents+json")]
_FINAL = frozenset((400, 401, 403, 404, 405, 426))


@dataclass(frozen=True, slots=True)
class Options:
    """The command's options."""

    url: str
    forward: str | None
    prints: bool
    token: str | None
    mode: str
    count: int | None
    in_flight: int
    timeout_s: float


class _Entry(msgspec.Struct):
    lease: str
    delivery: int
    event: msgspec.Raw


class _Received(msgspec.Struct):
    lease_s: float
    events: list[_Entry]


_read = msgspec.json.Decoder(_Received).decode


class Listening:
    """One run of the command."""

    def __init__(self, options: Options) -> None:
        self._options = options
        registry = installed()
        context = BuildContext("listen", Path(), SystemClock(), registry, binding=HTTP)
        self._codec = cast(Codec, registry.build(CodecRef("cloudevents", {"mode": options.mode}), context))
        self._held: dict[str, _Entry] = {}
        self._lease_s = 30.0
        self._taken = self._done = 0
        self._away = self._waits = False
        self._said_refused = ""
        self._stop: anyio.Event
        self._room: anyio.Event
        self._gateway: httpx.AsyncClient
        self._local: httpx.AsyncClient

    def run(self) -> int:
        """Runs until Ctrl-C, `count` events, or a refusal. Returns the exit code."""
        return anyio.run(self._run)

    async def _run(self) -> int:
        options = self._options
        self._stop, self._room = anyio.Event(), anyio.Event()
        headers = {"authorization": f"Bearer {options.token}"} if options.token else {}
        limits = httpx.Limits(max_connections=options.in_flight + 4)
        async with (
            httpx.AsyncClient(headers=headers, timeout=WAIT_S + 30, limits=limits) as self._gateway,
            httpx.AsyncClient(timeout=options.timeout_s, limits=limits, trust_env=False) as self._local,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(self._signals, tasks.cancel_scope)
            tasks.start_soon(self._extend)
            async with anyio.create_task_group() as under_way:
                await self._fetch(under_way)
                self._stop.set()
                with anyio.move_on_after(DRAIN_S):
                    while self._held:  # noqa: ASYNC110 - once, at the end
                        await anyio.sleep(0.02)
                under_way.cancel_scope.cancel()
            if self._held:
                await self._settle("release", list(self._held), reason="the listener stopped")
            tasks.cancel_scope.cancel()
        return FAULT if self._said_refused else OK

    async def _signals(self, scope: anyio.CancelScope) -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                if self._stop.is_set():
                    scope.cancel()
                self._stop.set()

    # -- from the gateway ----------------------------------------------------------------------------------------------

    async def _fetch(self, tasks: anyio.abc.TaskGroup) -> None:
        """Fetches events until the end, and starts a task for each."""
        wait = SHORTEST_S
        while not self._stop.is_set() and not self._said_refused:
            room = self._options.in_flight - len(self._held)
            if self._options.count is not None:
                room = min(room, self._options.count - self._taken)
                if self._done >= self._options.count:
                    return
            if room <= 0:
                self._room = anyio.Event()
                await self._unless_stopped(self._room.wait)
                continue
            found: list[_Received | None] = []

            async def receive(most: int = room, into: list[_Received | None] = found) -> None:
                into.append(await self._receive(most))

            await self._unless_stopped(receive)
            if found and found[0] is not None:
                wait = SHORTEST_S
                self._lease_s = found[0].lease_s
                for entry in found[0].events:
                    self._held[entry.lease] = entry
                    self._taken += 1
                    tasks.start_soon(self._handle, entry)
            elif found and not self._said_refused:
                pause = wait * random.uniform(0.5, 1.0)
                wait = min(wait * 2, LONGEST_S)
                await self._unless_stopped(lambda pause=pause: anyio.sleep(pause))

    async def _unless_stopped(self, wait: Any) -> None:
        """Waits for it, or until the end."""
        async with anyio.create_task_group() as tasks:

            async def stop() -> None:
                await self._stop.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(stop)
            await wait()
            tasks.cancel_scope.cancel()

    async def _receive(self, most: int) -> _Received | None:
        try:
            wait_s = 0 if self._away else WAIT_S  # to see soon that it is back
            response = await self._gateway.post(f"{self._options.url}/receive", json={"max": most, "wait_s": wait_s})
            if response.status_code in _FINAL:
                self._said_refused = f"{self._shown} says {response.status_code}: {_detail(response)}"
                _say(self._said_refused)
                return None
            response.raise_for_status()
            received = _read(response.content)
        except (httpx.HTTPError, httpx.InvalidURL, msgspec.MsgspecError) as e:
            if not self._away:
                _say(f"{self._shown} can't be reached, trying again: {one_line(e) or type(e).__name__}")
            self._away = True
            if isinstance(e, httpx.InvalidURL | httpx.UnsupportedProtocol):
                self._said_refused = str(e)
            return None
        if self._away:
            _say(f"connected to {self._shown} again")
        self._away = False
        return received

    async def _settle(self, word: str, leases: list[str], **more: Any) -> None:
        """Tells the gateway; tries again for as long as the lease lasts."""
        body = {"leases": leases, **more}
        with anyio.move_on_after(self._lease_s, shield=True):
            while True:
                try:
                    response = await self._gateway.post(f"{self._options.url}/{word}", json=body)
                    if response.status_code < 500:
                        if gone := response.json().get("gone") if response.is_success else leases:
                            _say(f"{len(gone)} leases expired: their events will be delivered again")
                        break
                except (httpx.HTTPError, ValueError):
                    pass
                if self._stop.is_set():
                    break
                await anyio.sleep(0.5)
        for lease in leases:
            self._held.pop(lease, None)
        self._room.set()

    async def _extend(self) -> None:
        """Keeps the leases of what is under way."""
        while True:
            await anyio.sleep(self._lease_s / 3)
            if leases := list(self._held):
                try:
                    body = {"leases": leases, "lease_s": self._lease_s}
                    await self._gateway.post(f"{self._options.url}/extend", json=body)
                except httpx.HTTPError:
                    pass  # they expire, and the events are delivered again

    @property
    def _shown(self) -> str:
        return shown_url(self._options.url)

    # -- to the server here --------------------------------------------------------------------------------------------

    async def _handle(self, entry: _Entry) -> None:
        text = bytes(entry.event)
        try:
            (event,) = self._codec.decode(Message(_STRUCTURED, text))
            message = self._codec.encode(event)
        except (Refused, ValueError) as e:
            _say(f"not an event: {one_line(e)}")
            await self._settle("release", [entry.lease], retry=False, reason=one_line(e))
            return
        if self._options.prints:
            try:
                print(_line(text), flush=True)
            except OSError as e:
                self._output_failed(e)
                await self._settle("release", [entry.lease], reason="the output was closed")
                return
        if self._options.forward is None:
            await self._settle("ack", [entry.lease])
        else:
            await self._forward(entry, event, message)
        self._done += 1
        self._room.set()

    def _output_failed(self, error: OSError) -> None:
        """Ends: the reader has all that it wants, or the disk is full."""
        if not self._stop.is_set() and not isinstance(error, BrokenPipeError):
            self._said_refused = f"can't write the output: {error.strerror or error}"
            _say(self._said_refused)
        self._stop.set()

    async def _forward(self, entry: _Entry, event: Event, message: Message) -> None:
        assert self._options.forward is not None
        wait, longest = LOCAL_S
        began = time.monotonic()
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in message.headers]
        while True:
            try:
                response = await self._local.post(self._options.forward, headers=headers, content=message.body or b"")
                break
            except httpx.ConnectError as e:  # nobody is there: no attempt was made
                if not self._waits:
                    self._waits = True
                    _say(f"{self._options.forward} can't be reached ({one_line(e)}): events wait for it")
                if self._stop.is_set():
                    await self._settle("release", [entry.lease], reason="the local server can't be reached")
                    return
                await anyio.sleep(wait)
                wait, began = min(wait * 2, longest), time.monotonic()
            except httpx.HTTPError as e:
                reason = one_line(e) or type(e).__name__
                _tell(event, reason)
                await self._settle("release", [entry.lease], reason=reason)
                return
        self._waits = False
        _tell(event, f"{response.status_code} in {(time.monotonic() - began) * 1000:.0f} ms")
        if response.is_success:
            await self._settle("ack", [entry.lease])
            return
        retry = is_retried(response.status_code)
        asked = response.headers.get("retry-after", "").encode()
        wait_s = min(retry_after_s(asked, time.time()) or 0.0, 86_400.0) if retry and asked else None
        reason = f"{response.status_code} {one_line(response.reason_phrase)}".rstrip()
        await self._settle("release", [entry.lease], retry=retry, reason=reason, retry_after_s=wait_s)


def _line(text: bytes) -> str:
    """JSON on one line, safe for a terminal: what could mislead one is escaped, so that the values stay the same."""
    line = b" ".join(text.splitlines()).decode()
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] if c != "\t" else " " for c in line)


def _tell(event: Event, what: str) -> None:
    attributes = event.attributes
    kind, id = (one_line(attributes.get(name) or "?", 80) for name in ("type", "id"))
    print(f"{time.strftime('%H:%M:%S')}  {kind}  {id}  → {what}", file=sys.stderr, flush=True)


def _detail(response: httpx.Response) -> str:
    try:
        return one_line(response.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return one_line(response.reason_phrase)


def _say(text: str) -> None:
    print(f"tidegate: {text}", file=sys.stderr, flush=True)
