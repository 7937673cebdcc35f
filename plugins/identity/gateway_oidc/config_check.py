"""Checks of configs that name several issuers: a sender of one must not have the name of a sender of another."""

from __future__ import annotations

from collections.abc import Iterator

from gateway_access.compared import PlacedAuthenticator, compared

from gateway_core.contract.config_extension import ConfigFinding
from gateway_core.contract.config_model import GatewayConfig

from .config import OidcConfig

_REMEDY = "give each issuer a `subject_prefix`, such as `login:`, with which no other one begins"


def check(config: GatewayConfig) -> Iterator[ConfigFinding]:
    """A fault for issuers with the same prefix, and a warning of those whose prefix begins with another's."""
    told = set()
    for one, other in compared(config):
        finding = _finding(one, other)
        if finding is not None and finding not in told:
            told.add(finding)
            yield finding


def _finding(one: PlacedAuthenticator, other: PlacedAuthenticator) -> ConfigFinding | None:
    first, second = one.ref.options, other.ref.options
    if not isinstance(first, OidcConfig) or not isinstance(second, OidcConfig):
        return None
    if (first.issuer, first.subject) == (second.issuer, second.subject):
        return None
    shorter, longer = sorted((first, second), key=lambda options: len(options.subject_prefix))
    if not longer.subject_prefix.startswith(shorter.subject_prefix):
        return None
    if longer.subject_prefix == shorter.subject_prefix:
        names = (
            f"the claims `{first.subject}` and `{second.subject}` of {first.issuer}"
            if first.issuer == second.issuer
            else f"the issuers {first.issuer} and {second.issuer}"
        )
        return ConfigFinding(f"{names} can give different senders the same subject", other.place, _REMEDY)
    text = f"{shorter.issuer} could give a sender a subject that begins with `{longer.subject_prefix}`, as those of"
    return ConfigFinding(f"{text} {longer.issuer} do", other.place, _REMEDY, warning=True)
