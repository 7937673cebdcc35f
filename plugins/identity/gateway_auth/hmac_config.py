"""The options of the authenticator `hmac`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from gateway_signing.hmac_scheme import HmacScheme
from pydantic import model_validator

from gateway_core.contract.config_node import Place

from .signing_secrets import SignedConfig


class HmacConfig(SignedConfig, HmacScheme):
    """Requests that are signed with a shared secret (HMAC, RFC 2104). The signature covers the body as it was sent,
    before any content coding is removed. Requests without `header` have no credentials of this kind."""

    @model_validator(mode="after")
    def _remembers_timestamps(self) -> Self:
        if self.remember and not self.has_timestamp:
            raise ValueError("`remember` needs a timestamp: without one, a replay is possible for ever")
        return self

    @property
    def sender(self) -> str:
        """The subject of who signs."""
        return f"hmac {self.name or self.preset or self.header}"

    def warnings(self) -> Iterable[tuple[Place, str, str]]:
        """See `Config`."""
        yield from super().warnings()
        yield from self.outdated()
