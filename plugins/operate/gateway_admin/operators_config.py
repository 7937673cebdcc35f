"""The section `operators` of a config: who may call the admin API, besides those who have a token of the gateway."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

from gateway_access.policy import AllowConfig, Claim, Claims, Subject, is_about
from gateway_api.roles import ROLES, Role
from pydantic import Field, model_validator

from gateway_core.contract.component import AuthenticatorRef, Config
from gateway_core.contract.config_extension import ConfigFinding
from gateway_core.contract.identity import Identity

if TYPE_CHECKING:
    from gateway_core.contract.config_model import GatewayConfig

SECTION = "operators"
_OF_BODIES = ("hmac", "standard_webhooks")
_OF_CONNECTIONS = ("mtls",)
_REMEDY = "use `oidc`, `api_key` or `basic`"


class RoleConfig(Config):
    """Gives a role. All keys that are given must fit; without `from` and `claims`, everyone whom this entry knows."""

    role: Role
    """The role: `metrics`, `viewer`, `operator` or `admin`."""
    subjects: list[Subject] = Field(default=["*"], alias="from")
    """Who gets it, by subject (`key anna`). A `*` at the end stands for any rest."""
    claims: dict[str, Claim | Claims] = {}
    """Claims that they must have, each with its value or a list of possible values. A claim that is a list fits if one
    of its items does. Dots lead into nested claims (`realm_access.roles`)."""

    def fits(self, who: Identity) -> bool:
        """Whether someone gets the role."""
        rule: dict[str, Any] = {"subjects": self.subjects, "authenticator": None, "claims": self.claims, "filters": []}
        return is_about(AllowConfig.model_construct(**rule), who)


class OperatorsConfig(Config):
    """Who may call the admin API: how they prove who they are, and their roles."""

    authenticate: list[AuthenticatorRef] = []
    """How they prove who they are. Any one of these may accept a request."""
    anonymous: bool = False
    """True lets callers without any credentials have the `role`, which can be `metrics` or `viewer` then."""
    role: Role | None = None
    """The role of all whom this entry knows."""
    roles: list[RoleConfig] = []
    """Roles of some. Of several that fit, the highest counts."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if bool(self.authenticate) == self.anonymous:
            raise ValueError("write either `authenticate`, or `anonymous: true`")
        if self.anonymous and (self.role not in ("metrics", "viewer") or self.roles):
            raise ValueError("anonymous callers can have `role: metrics` or `role: viewer` only")
        if self.role is None and not self.roles:
            raise ValueError("nobody has a role: write `role` or `roles`")
        return self

    def role_of(self, who: Identity) -> Role | None:
        """The role of someone whom an authenticator of this entry knows."""
        found = [each.role for each in self.roles if each.fits(who)] + ([self.role] if self.role else [])
        return max(found, key=ROLES.index, default=None)


def check(config: GatewayConfig) -> Iterator[ConfigFinding]:
    """Faults of authenticators that can't tell who calls the admin API. A signature says who wrote a body. It says
    nothing of the request's path, so that whoever sees one could send it again as another request."""
    for name, entry in config.section(SECTION).items():
        for i, ref in enumerate(entry.authenticate):
            place = (SECTION, name, "authenticate", i)
            if ref.name in _OF_BODIES:
                text = f"`{ref.name}` signs bodies, not requests: who sees one could make others of it"
                yield ConfigFinding(text, place, _REMEDY)
            elif ref.name in _OF_CONNECTIONS:
                yield ConfigFinding(f"`{ref.name}`: the admin API asks for no client certificates", place, _REMEDY)
