"""Who sent an event, as the authenticator of its ingress found out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Identity:
    """A sender.

    `subject`        its name, which policies compare ("system:serviceaccount:default:orders", "key billing").
    `authenticator`  the component that proved it ("oidc"), "" if nobody did.
    `type`           what it is, as `authtype` of the CloudEvents extension "Auth Context" says: app_user, user,
                     service_account, api_key, system, unauthenticated or unknown.
    `claims`         what else is known about it (the claims of a token). Nothing in it is a credential.
    """

    subject: str
    authenticator: str
    type: str = "unknown"
    claims: Mapping[str, Any] = field(default_factory=dict, hash=False)


ANONYMOUS = Identity("anonymous", "", "unauthenticated")
"""A sender who did not have to prove anything."""
