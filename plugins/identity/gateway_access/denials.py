"""Denied attempts to send, in the audit log."""

from __future__ import annotations

from collections.abc import Callable

from gateway_audit_log.log import audit_log

from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Message
from gateway_core.contract.identity import Identity

Denied = Callable[[Message | None, Identity | None, Refused], None]
"""Takes a denied request (None if only its events are known), its sender if known, and the refusal."""

_DENIED = (401, 403)


def recorder(context: BuildContext) -> Denied:
    """Records denied attempts at a source. Exceeded quotas are no denials."""
    audit, ingress = audit_log(context.data_dir, context.worker), context.owner

    def denied(request: Message | None, who: Identity | None, refusal: Refused) -> None:
        if refusal.status in _DENIED:
            peer = request.peer if request is not None else None
            where, subject = peer.host if peer is not None else "", who.subject if who is not None else ""
            facts = {"ingress": str(ingress), "status": refusal.status, "reason": refusal.detail}
            if who is not None and who.authenticator:
                facts["authenticator"] = who.authenticator
            audit.record(subject, "event.send", where, "denied", **facts)

    return denied
