"""Builds components for the suites like a gateway does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from gateway_cloudevents.bindings import HTTP

from gateway_core.contract.authenticator import Authenticator
from gateway_core.contract.capabilities import runs_alone
from gateway_core.contract.clock import SystemClock
from gateway_core.contract.component import (
    AuthenticatorRef,
    Binding,
    BuildContext,
    ChannelRef,
    CodecRef,
    Component,
    ComponentRef,
    FilterRef,
    KeyMapperRef,
    SinkRef,
    SourceRef,
)
from gateway_core.contract.configs import Registry, installed
from gateway_core.contract.interfaces import Channel, Codec, Filter, KeyMapper, Sink, Source

from . import faulty_codec

PATIENCE_S = 60.0
"""How long a suite waits for something that must happen."""
_patience: ContextVar[float] = ContextVar("patience", default=PATIENCE_S)


@cache
def _installed() -> Registry:
    return installed({"suite_faulty": faulty_codec})


class Kit:
    """Builds components from config values: `kit.sink("udp", {"host": "127.0.0.1", "port": 9})`.

    It knows all installed plugins by their entry points. `folder` belongs to the test and stays the same for all
    components that the test builds, like a gateway's data directory across restarts. `worker` is the number of the
    worker that a component is built for, of `workers`.
    """

    worker = 0
    workers = 1

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.built: Component | None = None
        """The descriptor of the component that was built last."""

    @property
    def registry(self) -> Registry:
        """All components that are installed."""
        return _installed()

    def authenticator(self, name: str, options: Any = None) -> Authenticator:
        return cast(Authenticator, self._build(AuthenticatorRef(name, options)))

    def codec(self, name: str, options: Any = None, binding: Binding = HTTP) -> Codec:
        return cast(Codec, self._build(CodecRef(name, options), binding=binding))

    def sink(self, name: str, options: Any = None) -> Sink:
        return cast(Sink, self._build(SinkRef(name, options)))

    def source(self, name: str, options: Any = None) -> Source:
        return cast(Source, self._build(SourceRef(name, options)))

    def filter(self, name: str, options: Any = None) -> Filter:
        return cast(Filter, self._build(FilterRef(name, options)))

    def key_mapper(self, name: str, options: Any = None) -> KeyMapper:
        return cast(KeyMapper, self._build(KeyMapperRef(name, options)))

    def channel(self, name: str, options: Any = None) -> Channel:
        return cast(Channel, self._build(ChannelRef(name, options)))

    def _build(self, ref: ComponentRef, binding: Binding | None = None) -> Any:
        registry = self.registry
        offer = registry.find(ref.kind, ref.name)
        self.built = offer.component if offer else None
        context = BuildContext(
            f"test.{ref.kind}",
            self.folder,
            SystemClock(),
            registry,
            self.worker,
            self.workers,
            binding,
            broker="default",
            trigger="test",
        )
        return registry.build(ref, context)


def agrees_with_its_card(kit: Kit, source: Source) -> bool:
    """Whether a source that the kit built runs in the workers that its capability card names (`Guarantees.workers`);
    True if it has none."""
    card = kit.built.guarantees if kit.built else None
    if card is None or card.workers == "one or share":
        return True
    return runs_alone(source) == (card.workers == "one")


class Suite:
    """The base of all suites. Async tests run on asyncio, like the gateway."""

    @pytest.fixture
    def kit(self, tmp_path: Path) -> Kit:
        return Kit(tmp_path)

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"


def patience_s() -> float:
    """`PATIENCE_S`, or as long as `patience` says."""
    return _patience.get()


@contextmanager
def patience(limit_s: float) -> Iterator[None]:
    """In this block suites wait so many seconds for what must happen. For tests that expect a suite to fail."""
    token = _patience.set(limit_s)
    try:
        yield
    finally:
        _patience.reset(token)


async def until(condition: Callable[[], bool], what: str) -> None:
    """Waits for a condition; fails after `PATIENCE_S`, or as long as `patience` says."""
    limit_s = patience_s()
    with anyio.move_on_after(limit_s):
        while not condition():  # noqa: ASYNC110 - the condition may be another thread's
            await anyio.sleep(0.005)
        return
    raise AssertionError(f"waited {limit_s:g} s for {what}")
