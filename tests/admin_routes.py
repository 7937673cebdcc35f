"""The routes of a gateway's admin API, for tests that go through all of them."""

from __future__ import annotations

from gateway_api.routes import OffersRoutes, Route

from gateway_core.contract.services import GatewayView


def all_routes(gateway: GatewayView) -> list[Route]:
    """The routes of all services of a gateway."""
    services = gateway.services.values()
    return [route for service in services if isinstance(service, OffersRoutes) for route in service.routes()]
