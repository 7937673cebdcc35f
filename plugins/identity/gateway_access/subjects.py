"""Subjects that only one authenticator gives out, so that nobody else's sender can be taken for one of them."""

from __future__ import annotations

import re

_RESERVED = re.compile(r"(?:key|user|hmac|webhooks|dns|uri) |(?:[A-Za-z]|\d+\.)[A-Za-z0-9.-]*=(?!=?$)", re.DOTALL)


def is_reserved(subject: str) -> bool:
    """Whether a subject has the form of an API key's (`key billing`), a user's, a signature's, or a certificate's
    (`dns a.example`, `uri spiffe://a.example/b`, `CN=a`; not `CN=` and `CN==`, which also end texts in Base64). A name
    that comes from outside, such as a token's `sub`, must not; a certificate's must."""
    return _RESERVED.match(subject) is not None


_FORMS = {"api_key": "key ", "basic": "user ", "hmac": "hmac ", "standard_webhooks": "webhooks "}


def may_give_out(authenticator: str, subject: str) -> bool:
    """Whether an authenticator of ours can have proved this subject, by its form. Of others nobody knows."""
    if authenticator in _FORMS:
        return subject.startswith(_FORMS[authenticator])
    if authenticator == "mtls":
        return is_reserved(subject) and not subject.startswith(tuple(_FORMS.values()))
    return authenticator != "oidc" or not is_reserved(subject)
