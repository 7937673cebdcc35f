"""Whether another client uses this source's client id. A server lets one client of a name in and throws out the one
before (MQTT 5 section 3.1.4), so two that connect again take turns: each seems to work for some seconds."""

from __future__ import annotations

from collections.abc import Callable

STEADY_S = 30.0
"""After a connection that lasted this long the name is ours, in seconds: three times the longest wait of a rival
between two tries (`gateway_transport.connection`)."""
IN_A_ROW = 3
"""Many servers close without a word, as they do when they end, too: so many closes in a row, with no other failure
between them and none after a steady connection, point to a rival."""


class TakenOver(OSError):
    """The server says that another client took over the session."""


class Closed(OSError):
    """The server ended the connection without saying why."""


class Rivals:
    """What the connections of one client id tell. `now` is in seconds."""

    def __init__(self, client_id: str, now: Callable[[], float]) -> None:
        self._client_id = client_id
        self._now = now
        self._since: float | None = None  # of the connection
        self._closed = 0
        self._thrown_out = False

    def connected(self) -> None:
        """The server took a connection."""
        self._since = self._now()

    def ended(self, error: BaseException) -> None:
        """A connection, or a try to make one, ended with this."""
        since, self._since = self._since, None
        if since is not None and self._now() - since >= STEADY_S:
            self._closed, self._thrown_out = 0, False
        if isinstance(error, TakenOver):
            self._thrown_out = True
        elif isinstance(error, Closed) and since is not None:
            self._closed += 1
        else:
            self._closed, self._thrown_out = 0, False

    @property
    def fault(self) -> str:
        """What there is to say of a rival, "" if nothing."""
        if self._since is not None and self._now() - self._since >= STEADY_S:
            return ""
        if self._thrown_out:
            return (
                f"another client uses the client id {self._client_id}, too, and each throws the other out: give each "
                "gateway a `client_id` of its own"
            )
        if self._closed >= IN_A_ROW:
            return (
                f"the server took {self._closed} connections and closed each within seconds, without a word: most "
                f"likely another client uses the client id {self._client_id}, too; give each gateway a `client_id` of "
                "its own"
            )
        return ""
