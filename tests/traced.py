"""A gateway in this process whose spans a test reads: from the SDK's memory, or from anywhere else it exports to."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio.from_thread import start_blocking_portal
from gateway_otel.tracer import OtelTracer
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Sampler

from gateway_core.config.registry import Registry
from gateway_core.contract.component import Component, Config
from gateway_core.contract.configs import load
from gateway_core.contract.hookspecs import hookimpl
from gateway_core.contract.interfaces import Observer
from gateway_core.contract.settings import Settings
from gateway_core.contract.status import GatewayStatus
from gateway_core.runtime.gateway import Gateway
from tests import web

LIMIT_S = 60.0
OBSERVED = "observers: [traced]\n"


class Spans:
    """A provider, and the spans that ended."""

    def __init__(self, sampler: Sampler | None = None) -> None:
        self.provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        self._memory = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._memory))
        self.tracer = self.provider.get_tracer("test")

    def all(self) -> list[ReadableSpan]:
        return list(self._memory.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [s for s in self.all() if s.name == name]

    def wait_for(self, name: str, count: int = 1) -> list[ReadableSpan]:
        """The spans of this name, once there are at least `count`."""
        wait_until(
            lambda: len(self.named(name)) >= count, lambda: f"{count} of {name!r}: {[s.name for s in self.all()]}"
        )
        return self.named(name)

    def one(self, name: str) -> ReadableSpan:
        """The only span of this name."""
        (found,) = self.wait_for(name)
        return found

    @hookimpl
    def gateway_observers(self) -> list[Component]:
        observer = Observer()
        observer.tracer = OtelTracer(self.provider)
        return [Component("traced", "A test's.", Config, lambda options, context: observer)]


class Running:
    """A gateway that runs, as a test sees it."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def status(self) -> GatewayStatus:
        return self._gateway.status()

    def ingress(self, name: str = "default") -> str:
        """The address of a broker or bridge."""
        status = self.status()
        for broker in status.brokers:
            if broker.name == name:
                return broker.ingress[0]
        return next(bridge.source for bridge in status.bridges if bridge.name == name)


@contextmanager
def traced(config: str, folder: Path, spans: Spans) -> Iterator[Running]:
    """Runs the config's gateway in a thread until the end of the block. It traces where the config has `OBSERVED`."""
    folder.mkdir(exist_ok=True)
    (folder / "tidegate.yaml").write_text(config)
    registry = Registry.installed()
    registry.add("traced", spans)
    settings = Settings(data_dir=folder / "data", admin="off", drain_timeout_s=5, reload="off")
    with start_blocking_portal("asyncio") as portal:
        loaded = load([folder / "tidegate.yaml"], registry)
        gateway = portal.call(lambda: Gateway(loaded, settings, registry))
        stop, started = portal.call(anyio.Event), portal.call(anyio.Event)
        running = portal.start_task_soon(gateway.run, stop, started)
        try:
            wait_until(lambda: started.is_set() or running.done(), lambda: "the start of the gateway")
            if running.done():
                running.result()
            yield Running(gateway)
        finally:
            portal.call(stop.set)
            running.result(LIMIT_S)


def wait_until(condition: Callable[[], object], what: Callable[[], str], limit_s: float = LIMIT_S) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, f"not within {limit_s:g} s: {what()}"
        time.sleep(0.01)


def context_of(headers: Mapping[str, str]) -> tuple[int, int]:
    """Trace id and span id of a `traceparent` header."""
    found = re.fullmatch("00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}", headers["traceparent"])
    assert found is not None, headers
    return int(found[1], 16), int(found[2], 16)


def of_span(span: ReadableSpan) -> tuple[int, int]:
    """Trace id and span id of a span."""
    context = span.get_span_context()
    assert context is not None
    return context.trace_id, context.span_id


def parent_of(span: ReadableSpan) -> tuple[int, int] | None:
    """Trace id and span id of a span's parent."""
    return None if span.parent is None else (span.parent.trace_id, span.parent.span_id)


def header_of(context: tuple[int, int], flags: int = 1) -> str:
    """The `traceparent` of a trace id and a span id."""
    return f"00-{context[0]:032x}-{context[1]:016x}-{flags:02x}"


# -- what the tests of traces send and see --------------------------------------------------------------------------

INGRESS = OBSERVED + "brokers: {default: {ingress: [http: {listen: '127.0.0.1:0'}], dead_letter: DEAD}}\n"
CLIENT = 0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331
OTHER = 0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7


def config(*triggers: str, dead: str = "deadletter", more: str = "") -> str:
    return INGRESS.replace("DEAD", dead) + "triggers:\n" + "\n".join(f"  {t}" for t in triggers) + "\n" + more


def binary(id: str = "1", **more: str) -> dict[str, str]:
    headers = {"ce-specversion": "1.0", "ce-id": id, "ce-source": "/s", "ce-type": "t"}
    return {**headers, **{f"ce-{k}": v for k, v in more.items()}}


def post(url: str, headers: Mapping[str, str], body: bytes = b"") -> int:
    return web.post(url, headers=headers, content=body, verify=False).status_code


def says(span: ReadableSpan, wanted: Mapping[str, Any]) -> None:
    """The span has these attributes; None stands for "not there"."""
    attributes = span.attributes or {}
    assert {name: attributes.get(name) for name in wanted} == dict(wanted)


def linked(span: ReadableSpan) -> list[tuple[int, int]]:
    return [(link.context.trace_id, link.context.span_id) for link in span.links]
