"""Counts what an ingress refused, for its metrics."""

from __future__ import annotations

from collections.abc import Mapping

from gateway_core.contract.component import OwnMetric
from gateway_core.contract.errors import Refused
from gateway_core.contract.identity import Identity

MOST_NAMES = 100
"""Senders that are counted by name in one worker; the others are counted as `OTHERS`."""
LONGEST_NAME = 200
"""Characters of a sender's name in a metric."""
OTHERS = "(others)"
UNKNOWN = "(unknown)"
"""Who had no or wrong credentials."""


class Counts:
    """Refused requests by status and by sender."""

    def __init__(self) -> None:
        self._by_status: dict[str, int] = {}
        self._by_sender: dict[str, int] = {}
        self._unknown = self._others = 0

    def refused(self, who: Identity | None, refusal: Refused) -> None:
        """Counts one."""
        status = str(refusal.status)
        self._by_status[status] = self._by_status.get(status, 0) + 1
        if who is None:
            self._unknown += 1
            return
        name, counted = _name(who), self._by_sender
        if name in counted:
            counted[name] += 1
        elif len(counted) < MOST_NAMES:
            counted[name] = 1
        else:
            self._others += 1

    def metrics(self, word: str) -> Mapping[str, Mapping[str, float]]:
        """The numbers of `metrics(word)`."""
        by_status, by_sender = (metric.name for metric in metrics(word))
        more = {name: count for name, count in ((OTHERS, self._others), (UNKNOWN, self._unknown)) if count}
        return {by_status: {**self._by_status}, by_sender: {**self._by_sender, **more}}


def _name(who: Identity) -> str:
    """With the authenticator: two of them may give out the same subject."""
    subject = who.subject[:LONGEST_NAME]
    return f"{subject} ({who.authenticator})" if who.authenticator else subject


def metrics(word: str) -> tuple[OwnMetric, OwnMetric]:
    """The metrics of a source with this name that lets senders in."""
    return (
        OwnMetric(
            f"tidegate_{word}_denied_total",
            "counter",
            "Requests refused because of who sent them, or of a quota, by status (401, 403, 413, 429).",
            by="status",
        ),
        OwnMetric(
            f"tidegate_{word}_denied_by_sender_total",
            "counter",
            f"The same by sender: the first {MOST_NAMES} as `SUBJECT (AUTHENTICATOR)`, the others as "
            f"`{OTHERS}`, those without valid credentials as `{UNKNOWN}`.",
            by="sender",
        ),
    )
