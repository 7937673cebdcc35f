"""Inspection as a service of a gateway: its routes, its taps, and what other workers know about an event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from gateway_admin.routes import Route

from gateway_core.contract.services import RunningService, Stream
from gateway_core.runtime.gateway import Gateway

from .delivery_state import states_of
from .routes import inspect_routes
from .tap.choice import BadFilter, Choice, compile_all
from .tap.tap import Tap
from .tap.taps import Taps


class InspectService(RunningService):
    """Owns the taps of this worker."""

    name = "inspect"

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.taps = Taps(gateway.built, gateway.clock)

    def routes(self) -> Sequence[Route]:
        return inspect_routes(self)

    async def stop(self) -> None:
        self.taps.close_all()

    def reached(self, wanted: Any) -> None:
        self.taps.attach()

    def answer(self, question: Any) -> Any:
        """Where an event is (`whereabouts`)."""
        asked = (question[name] for name in ("owner", "id", "source", "position"))
        return states_of(self.gateway.built, *asked)

    def open(self, request: Any) -> Stream | None:
        choice = msgspec.convert(request, Choice)
        try:
            return self.taps.open(choice, compile_all(choice.filters, self.gateway.registry))
        except BadFilter:
            return None  # the first worker reports it to its user

    def close(self, stream: Stream) -> None:
        if isinstance(stream, Tap):
            self.taps.close(stream)
