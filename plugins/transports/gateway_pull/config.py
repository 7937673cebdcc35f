"""Options of the sink `pull`."""

from __future__ import annotations

from typing import Annotated

from gateway_serving.access import Token, WebOrigin
from gateway_serving.hosts import HostName
from gateway_serving.limits import ListenerLimits, Seconds
from gateway_serving.listen import Listen, UrlPath
from gateway_serving.tls import ServerTlsConfig
from pydantic import AfterValidator, Field

from gateway_core.contract.component import Config


def _path(text: str) -> str:
    if text != "/" and text.endswith("/"):
        raise ValueError("write the path without a / at its end")
    return text


class PullSinkConfig(Config):
    """Keeps events for subscribers that fetch them. Sinks with the same `listen` share the socket and differ by
    path."""

    listen: Listen = "127.0.0.1:8082"
    """Address to listen on, `HOST:PORT`. Port 0 picks a free port."""
    path: Annotated[UrlPath, AfterValidator(_path)] = "/"
    """The path below which subscribers find `receive`, `ack`, `release`, `extend` and `events`."""
    lease_s: Seconds = 30.0
    """How long a subscriber has for an event that it fetched, in seconds. Then another one gets it."""
    max_leased: Annotated[int, Field(ge=1, le=10_000)] = 500
    """How many events may be fetched and not settled, or ready to be fetched. It is the trigger's `max_in_flight`."""
    token: Token | None = None
    """A bearer token that subscribers must send (`Authorization: Bearer …`)."""
    anonymous: bool | None = None
    """`true` if subscribers need no `token`. On an address other than loopback, one of both must be there."""
    origins: list[WebOrigin] = []
    """The web pages that may fetch events, by the `Origin` header of browsers, such as `https://app.example.com`; `*`
    for all. By default none may."""
    hosts: list[HostName] = []
    """Host names by which clients call this listener, without a port; `*.` at the beginning stands for any labels, `*`
    alone for every name. Requests for other names get 421. Without it, a listener on a loopback address answers to
    `localhost` and loopback addresses, and one that other machines reach answers to every name."""
    tls: ServerTlsConfig | None = None
    """Serves HTTPS."""
    limits: ListenerLimits = ListenerLimits()
    """Limits for clients."""

    @property
    def closed(self) -> bool:
        """See `gateway_access.exposure.LettingIn`."""
        return self.token is not None or (self.tls is not None and self.tls.client_ca_file is not None)
