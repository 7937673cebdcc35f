"""The options of authenticators that check signatures."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from gateway_signing.signing_keys import SecretsConfig
from pydantic import Field

from gateway_core.contract.config_node import Place

_LONG_WINDOW_S = 3600.0


class SignedConfig(SecretsConfig):
    """How signed requests are checked."""

    name: Annotated[str, Field(pattern=r"^[!-~]{0,128}$")] = ""
    """Who signs. The name is part of the sender's identity."""
    window_s: Annotated[float, Field(gt=0, le=7 * 86400)] = 300.0
    """How far the timestamp of a request may be from the gateway's time, in seconds, before or after it."""
    remember: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    """How many requests within the window are remembered, so that each is accepted only once; about 150 bytes each. If
    there are more, the oldest are forgotten. Each worker remembers its own, and a reload of the ingress forgets all.
    Use it only if the sender signs every attempt: one that the gateway could not store is remembered too."""

    unsigned_attributes: bool = False
    """Whether CloudEvents in binary mode may come in. Their attributes are header fields (`ce-type`), which the
    signature does not cover: whoever sees a signed request could send its body again as another event."""

    def warnings(self) -> Iterable[tuple[Place, str, str]]:
        """See `Config`."""
        yield from self.short_secrets(str.encode)
        if self.window_s > _LONG_WINDOW_S:
            text = "a captured request can be sent again for more than an hour"
            yield ("window_s",), text, "use the sender's own tolerance, most often 300"
