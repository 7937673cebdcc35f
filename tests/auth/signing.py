"""Authenticators as a gateway builds them, and requests for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway_testing import FakeClock

from gateway_core.contract.component import BuildContext
from gateway_core.contract.event import Message
from gateway_core.contract.peer import Peer
from tests.installed import REGISTRY

NOW = 1_700_000_000
Headers = dict[str, str] | list[tuple[str, str]]


class Bench:
    """An authenticator on a clock of its own."""

    def __init__(self, name: str, options: dict[str, Any], now: int = NOW, *, offline: bool = False) -> None:
        offer = REGISTRY.find("authenticator", name)
        assert offer is not None
        self.options: Any = offer.component.model.model_validate(options)
        self.clock = FakeClock(now)
        context = BuildContext("here", Path(), self.clock, REGISTRY, offline=offline)
        self.authenticator: Any = offer.component.build(self.options, context)

    def subject(self, headers: Headers, body: bytes | None = b"", certificate: Any = None) -> str | None:
        """Who sends this request; None if it has no such credentials. Raises `Refused`."""
        pairs = headers.items() if isinstance(headers, dict) else headers
        request = Message([(name.encode(), value.encode("latin-1")) for name, value in pairs], body)
        request.peer = Peer("127.0.0.1:1", lambda: certificate)
        found = self.authenticator.authenticate(request)
        assert found is None or found.type == "service_account"
        return None if found is None else str(found.subject)

    def warned(self) -> list[str]:
        return [text for _, text, _ in self.options.warnings()]
