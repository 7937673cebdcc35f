"""Inspection as a service of a gateway: its routes, its taps, and what other workers know about an event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from anyio.abc import TaskGroup
from gateway_api.routes import Route

from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.services import GatewayView, RunningService, Stream

if TYPE_CHECKING:
    from .tap.taps import Taps


class InspectService(RunningService):
    """Owns the taps of this worker."""

    name = "inspect"

    def __init__(self, gateway: GatewayView) -> None:
        self.gateway = gateway
        self._taps: Taps | None = None

    @property
    def taps(self) -> Taps:
        """The taps; there is nothing to attach before somebody asks for them."""
        if self._taps is None:
            from .tap.taps import Taps

            self._taps = Taps(self.gateway)
        return self._taps

    def load(self) -> None:
        from . import routes  # noqa: F401

    def routes(self) -> Sequence[Route]:
        from .routes import inspect_routes

        return inspect_routes(self)

    async def start(self, tasks: TaskGroup) -> None:
        if self.gateway.worker != 0:  # the first one asks at any time, and expects an answer at once
            from . import delayed, delivery_state  # noqa: F401
            from .tap import choice  # noqa: F401

            _ = self.taps

    async def stop(self) -> None:
        if self._taps is not None:
            self._taps.close_all()

    def reached(self, wanted: GatewayConfig) -> None:
        if self._taps is not None:
            self._taps.attach_witnesses()

    def answer(self, question: Any) -> Any:
        """Where an event is, or what waits until it is due."""
        if "delayed" in question:
            from .delayed import answered

            return answered(self.gateway.topology, question)
        from .delivery_state import states_of

        asked = (question[name] for name in ("owner", "id", "source", "position"))
        return states_of(self.gateway.topology, *asked)

    def open(self, request: Any) -> Stream | None:
        import msgspec

        from .tap.choice import BadFilter, Choice, compile_all

        choice = msgspec.convert(request, Choice)
        try:
            return self.taps.open(choice, compile_all(choice.filters, self.gateway.registry))
        except BadFilter:
            return None  # the first worker reports it to its user

    def close(self, stream: Stream) -> None:
        from .tap.tap import Tap

        if isinstance(stream, Tap):
            self.taps.close(stream)
