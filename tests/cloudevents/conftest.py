"""Codecs as the gateway builds them, and a plain event to vary."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import gateway_cloudevents.plugin
import pytest
from gateway_cloudevents.bindings import HTTP
from gateway_testing import FakeClock

from gateway_core.config.registry import Registry
from gateway_core.contract.component import Binding, BuildContext, CodecRef
from gateway_core.contract.interfaces import Codec

MakeCodec = Callable[..., Codec]


@pytest.fixture(scope="session")
def make_codec() -> MakeCodec:
    """`make_codec("structured", KAFKA)`: a codec by the registry; binary for HTTP where nothing is said."""
    registry = Registry()
    registry.add("cloudevents", gateway_cloudevents.plugin)

    def make(mode: str = "binary", binding: Binding | None = HTTP, **options: bool) -> Codec:
        context = BuildContext("test", Path(), FakeClock(), registry, binding=binding)
        codec: Codec = registry.build(CodecRef("cloudevents", {"mode": mode, **options}), context)
        return codec

    return make


@pytest.fixture(scope="session")
def codec(make_codec: MakeCodec) -> Codec:
    """One codec for all tests of a run: what it remembers must not change what it does."""
    return make_codec()
