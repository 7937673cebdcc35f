"""Figures on the overview of the console. A service of any plugin may add some (`OffersFigures`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from gateway_core.contract.status import GatewayStatus


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure. `name` says in a few words what it is, `text` is its value now. `kind` colours it. `path` is where
    more is said about it, such as a page that the service has ("/console/rejected"); "" if nowhere."""

    name: str
    text: str
    kind: Literal["good", "warn", "bad", ""] = ""
    path: str = ""


@runtime_checkable
class OffersFigures(Protocol):
    """A running service that adds figures to the console's overview."""

    def figures(self, status: GatewayStatus) -> Sequence[Figure]:
        """Its figures at this moment; `status` is that of all workers. It is called in the first worker, about once a
        second while somebody looks at the overview, and in a thread if there are many triggers; it must be quick.
        Return the same names each time: a page that is open shows those that it began with. What it raises is shown as
        a problem of the service, in place of its figures."""
