"""Options of sources that let senders in."""

from __future__ import annotations

from pydantic import field_validator

from gateway_core.contract.component import AuthenticatorRef, Config

from .policy import AllowConfig
from .quota_config import QuotaConfig


class AccessConfig(Config):
    """Who may send, what, and how much."""

    authenticate: list[AuthenticatorRef] = []
    """How senders prove who they are. Any one of these may accept a request."""
    anonymous: bool | None = None
    """Whether senders without credentials may send. An ingress on an address other than loopback needs `authenticate`,
    or `true` here. With both, wrong credentials are still refused."""
    allow: list[AllowConfig] = []
    """Which senders may send which events: at least one entry must allow an event. Without the key, all
    may; an empty list is a fault."""
    quota: QuotaConfig | None = None
    """How much may be sent."""
    auth_context: bool = False
    """Whether each event says who sent it, in the attributes `authtype` and `authid` (CloudEvents extension "Auth
    Context"). What the sender wrote there is replaced."""

    @field_validator("allow")
    @classmethod
    def _not_empty(cls, allow: list[AllowConfig]) -> list[AllowConfig]:
        if not allow:
            raise ValueError(
                "an empty list would let everyone in; write `allow: [{from: []}]` for nobody, or no `allow`"
            )
        return allow

    @property
    def closed(self) -> bool:
        """Whether senders have to prove something before anything is read from them. Listeners with other locks
        extend this."""
        return bool(self.authenticate or self.anonymous is False)

    @property
    def signable(self) -> bool:
        """Whether the requests that are checked have a body, which senders can sign."""
        return True

    @property
    def guarded(self) -> bool:
        """Whether there is anything to check."""
        closed = self.authenticate or self.anonymous is False
        return bool(closed or self.allow or self.quota is not None or self.auth_context)
