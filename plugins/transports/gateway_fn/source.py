"""The source: HTTP requests become calls of a function; what it returns is published and becomes the response."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from anyio.abc import TaskGroup
from gateway_access.counts import Counts
from gateway_access.exposure import refuse_open
from gateway_access.gate import Gate, gate_of
from gateway_cloudevents.bindings import HTTP
from gateway_serving.address import split_address
from gateway_serving.content_coding import decoded
from gateway_serving.hosts import Hosts
from gateway_transport.trace_headers import of_headers

from gateway_core.contract.component import BuildContext, CodecRef
from gateway_core.contract.errors import Refused, TidegateError
from gateway_core.contract.event import Event, Message
from gateway_core.contract.identity import Identity
from gateway_core.contract.interfaces import Codec, Intake, Outcome
from gateway_core.contract.one_line import one_line

from . import response
from .config import FnSourceConfig
from .function import build_function
from .names import as_returned, is_error, message_of
from .request import Request, event_of
from .response import InvalidResponse, Response, problem
from .server import Server

log = logging.getLogger("tidegate.fn")

MOST_LETTERS = 64
"""Maximum number of pending dead-letter writes: beyond it callers get 503, because the dead letter is down."""
Caller = tuple[Identity, Message]
"""Who calls, and the request."""
_GRACE_S = 1.0  # our own timer detects the deadline; the function's sink gives up later


class FnSource:
    """A `Source` whose callers wait for the function. Each request is one call: the caller sees a failure and decides
    whether to retry. Only events that missed their deadline go to the dead letter."""

    info: Callable[[], dict[str, Any]]
    """See `gateway_core.contract.capabilities.Watched`; there only if an authenticator reports its state."""

    def __init__(self, options: FnSourceConfig, context: BuildContext) -> None:
        self._options = options
        self._context = context
        self._clock = context.clock
        self._function = build_function(options.function, context)
        self._codec: Codec = context.build(CodecRef("fn"), binding=HTTP)
        hosts = Hosts(split_address(options.listen)[0], options.hosts)
        self._server = Server(self._handle, options.limits, options.max_body_bytes, hosts)
        self._base = options.public_url or ""
        self._prefix = options.path.endswith("/")
        if not context.offline:
            refuse_open(options, context.owner)
        self._counts = Counts()
        self._gate = gate_of(options, context, counts=self._counts)
        self._in_flight = 0
        self._letters = 0
        self._settled = asyncio.Event()
        self._intake: Intake
        self.address = ""
        if self._gate is not None and self._gate.reports:
            self.info = self._gate.info

    async def start(self, intake: Intake, tasks: TaskGroup) -> None:
        self._intake = intake
        await self._function.start(tasks)
        if self._gate is not None:
            await self._gate.start(tasks)
        context = self._context
        url = await self._server.start(self._options.listen, context.workers > 1, context.owner, tasks)
        self.address = url + self._options.path

    async def stop(self) -> None:
        if self._gate is not None:
            self._gate.leave()
        await self._server.stop()
        while self._letters:
            self._settled.clear()
            await self._settled.wait()
        await self._function.stop()
        if self._gate is not None:
            await self._gate.stop()

    def metrics(self) -> Mapping[str, Mapping[str, float]]:
        """See `gateway_core.contract.capabilities.Measured`."""
        return self._counts.metrics("fn")

    # -- one request ------------------------------------------------------------------------------------------------

    def _takes(self, path: str) -> bool:
        return path.startswith(self._options.path) if self._prefix else path == self._options.path

    async def _handle(self, request: Request) -> Response:
        if not self._takes(request.path):
            return problem(404, "there is no function at this path")
        if (reason := self._busy()) is not None:
            return response.busy(reason)
        options, now_ns = self._options, self._clock.now_ns()
        caller: Caller | None = None
        if self._gate is not None:
            caller, error = await self._caller(self._gate, request)
            if error is not None:
                return response.refused(error) if isinstance(error, Refused) else response.busy(str(error))
            if (reason := self._busy()) is not None:  # meanwhile
                return response.busy(reason)
            request = _without_credentials(self._gate, request)
        try:
            headers, body = decoded(request.headers, request.body, options.max_body_bytes)
            request = replace(request, headers=headers, body=body)
            event = event_of(request, self._base, options.version, now_ns, options.timeout_s)
            if self._context.traces:
                event.trace = of_headers(request.headers)
            self._codec.encode(event)  # 0.1 can't hold data that does not match its media type
        except Refused as e:
            self._intake.refuse(e)
            return response.refused(e)
        self._in_flight += 1
        try:
            return await self._call(event, caller)
        finally:
            self._in_flight -= 1

    def _busy(self) -> str | None:
        """Why no call can begin now, None if one can."""
        if self._in_flight >= self._options.max_in_flight:
            return f"{self._in_flight} calls are in flight, which is the limit"
        return "the dead letter accepts no events" if self._letters >= MOST_LETTERS else None

    async def _caller(self, gate: Gate, request: Request) -> tuple[Caller | None, TidegateError | None]:
        """Who calls, or why the call is refused."""
        result: asyncio.Future[tuple[Identity | None, TidegateError | None]] = (
            asyncio.get_running_loop().create_future()
        )
        message = Message(request.headers, request.body, None, request.method, request.target.decode("latin-1"))
        message.peer = request.peer
        gate.check(message, lambda who, error: None if result.done() else result.set_result((who, error)))
        who, error = await result
        if who is not None:
            error = gate.stranger(who, message)
        if isinstance(error, Refused):
            self._intake.refuse(error)
        return (None if who is None else (who, message)), error

    async def _call(self, event: Event, caller: Caller | None) -> Response:
        started = self._clock.monotonic()
        outcome = await self._ask(event)
        seconds = self._clock.monotonic() - started
        if outcome is None:
            outcome = Outcome(False, reason=f"past its deadline: no response within {self._options.timeout_s:g} s")
            self._intake.attempted(event, outcome, seconds)
            self._write_dead_letter(event, outcome)
            return problem(504, f"the function did not respond within {self._options.timeout_s:g} s")
        if outcome.reply is None:
            self._intake.attempted(event, outcome, seconds)
            return response.nothing(outcome) if outcome.delivered else response.failed(outcome)
        returned = as_returned(outcome.reply, self._function.address, self._clock.now_ns())
        returned.trace = event.trace
        answer, fault = _rendered(returned)
        if fault:
            outcome = Outcome(False, code=outcome.code, data=returned.data, reason=fault)
            log.warning("function %s: %s", self._function.address, one_line(fault))
        self._intake.attempted(event, outcome, seconds)
        if self._gate is not None and caller is not None:
            who, message = caller
            if (refusal := self._gate.admit(who, message, (returned,))) is not None:
                self._intake.refuse(refusal)
                return response.refused(refusal)
        error = await self._published(returned, caller)
        return answer if error is None else response.unpublished(error)

    async def _ask(self, event: Event) -> Outcome | None:
        """The outcome of the call; None if the deadline passed first."""
        result: asyncio.Future[Outcome | None] = asyncio.get_running_loop().create_future()

        def settle(outcome: Outcome | None) -> None:
            if not result.done():
                result.set_result(outcome)

        timeout_s = self._options.timeout_s
        timer = self._clock.call_later(timeout_s, settle, None)
        try:
            self._function.send(event, timeout_s + _GRACE_S, settle)
            return await result
        finally:
            timer.cancel()

    async def _published(self, event: Event, caller: Caller | None) -> BaseException | None:
        """Waits until the event is safe; returns why it is not, if so."""
        result: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

        def done(error: BaseException | None) -> None:
            if not result.done():
                result.set_result(error)

        told = done if self._gate is None or caller is None else self._gate.hearing(*caller, done)
        self._intake.accept([event], told)
        return await result

    def _write_dead_letter(self, event: Event, outcome: Outcome) -> None:
        def buried(error: BaseException | None) -> None:
            self._letters -= 1
            self._settled.set()
            if error is not None:
                log.error("an event that missed its deadline is lost: %s", error)

        self._letters += 1
        self._intake.undeliverable(event, outcome, self._function.address, buried)


def _without_credentials(gate: Gate, request: Request) -> Request:
    headers, target = gate.without_credentials(request.headers, request.target.decode("latin-1"))
    return replace(request, headers=headers, target=target.encode("latin-1"))


def _rendered(returned: Event) -> tuple[Response, str]:
    """The response for a returned event, and why the call counts as failed, or ""."""
    try:
        answer = response.response_of(returned)
    except InvalidResponse as e:
        return problem(502, f"what the function returned is not an HTTP response: {e}"), str(e)
    return answer, message_of(returned) if is_error(returned) else ""
