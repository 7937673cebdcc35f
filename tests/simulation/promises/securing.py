"""Promises about TLS."""

from __future__ import annotations

from ..facts import STOPS, Facts
from ..history import Greeted, Lingered
from .registry import Found, promise

LOOKS_S = 1.0
"""How long a renewed certificate may not be in use."""


@promise("howto/secure-a-gateway", "apply to new connections within a second")
def a_renewed_certificate_is_used(facts: Facts) -> Found:
    renewals = [(0.0, 0.0, 0)]  # when it began, when it was whole, which one
    renewals += [
        (s.begin, s.end if s.amount < 0 else s.begin, abs(s.amount)) for s in facts.spans if s.kind == "tls-renew"
    ]
    slow = facts.lag + LOOKS_S
    for greeted in facts.history.of(Greeted):
        if facts.faults(("freeze", "stall", "sender-stall", *STOPS), greeted.since - 15, greeted.at):
            continue
        if any(begin <= greeted.at and whole >= greeted.since - slow for begin, whole, _ in renewals[1:]):
            continue  # just now
        _, _, wanted = max(r for r in renewals if r[1] <= greeted.since)
        if greeted.certificate != wanted:
            yield greeted.at, f"a sender was shown certificate {greeted.certificate}, not {wanted}"


@promise("reference/components", "Timeout for a TLS handshake, and then for a request's head, in seconds")
def a_handshake_has_its_time(facts: Facts) -> Found:
    for lingered in facts.history.of(Lingered):
        if not facts.faults(("freeze", "memory"), lingered.since, lingered.at):
            yield lingered.at, f"the handshake that began at {lingered.since:.3f} s never ended"
