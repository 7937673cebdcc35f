"""What the audit log says of a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway_api.routes import Request, Route
from gateway_audit_log.log import AuditLog

from .callers import Caller

_DENIED = (401, 403)


@dataclass(slots=True)
class Attempt:
    """One request, as far as it is known. Its line is written when it has been answered."""

    method: str
    peer: str
    path: str = ""
    asked: Request | None = None
    route: Route | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    caller: Caller | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    status: int = 0
    detail: str = ""

    def failed(self, status: int, detail: str) -> None:
        """The request was answered with a problem."""
        self.status, self.detail = status, detail

    def record(self, audit: AuditLog) -> None:
        """Writes the line of a change, or of a request that was denied."""
        who, where = self.caller.who if self.caller else "", self.peer or "socket"
        action = self.route.action if self.route else ""
        if self.status in _DENIED:
            what = action or "admin.request"
            facts = {"status": self.status, "method": self.method, "path": self.path, "detail": self.detail}
            audit.record(who, what, where, "denied", **facts)
        elif action and self.status:
            audit.record(who, action, where, "failed", **self.params, status=self.status, detail=self.detail)
        elif action:
            audit.record(who, action, where, "done", **{**self.params, **self.facts})
