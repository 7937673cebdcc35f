"""Options of the `fn` source, sink and codec."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

from gateway_access.config import AccessConfig
from gateway_serving.address import leads_to, split_address
from gateway_serving.asgi import checked_path
from gateway_serving.hosts import HostName
from gateway_serving.limits import ListenerLimits, Seconds
from pydantic import AfterValidator, Field

from gateway_core.contract.component import Config, SinkRef


def _listen(text: str) -> str:
    split_address(text)
    return text


def _public_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError("write http://HOST[:PORT][/PATH] or https://…, without a query")
    return text.rstrip("/")


class FnSourceConfig(AccessConfig):
    """Calls a function for every HTTP request. The event that it returns is published and becomes the response. Who may
    call is checked before the call: with `allow`, somebody of whom an entry says that it may send. Filters in `allow`,
    limits of events in `quota`, and policies of the broker are about the event that is published, and so about the time
    after the call. With `authenticate`, the function doesn't get the caller's credentials."""

    listen: Annotated[str, AfterValidator(_listen)] = "127.0.0.1:8080"
    """Address to listen on, `HOST:PORT`; no other source can share it. Port 0 picks a free port."""
    path: Annotated[str, AfterValidator(checked_path)] = "/"
    """The path of requests, with any method. A path that ends with `/` matches all paths below it."""
    function: SinkRef
    """The function: a sink that returns replies, such as `http://HOST/`. Its default codec is `fn`."""
    timeout_s: Seconds = 30.0
    """The function's deadline, in seconds. After that the caller gets 504."""
    version: Literal["0.1", "1.0"] = "0.1"
    """The CloudEvents version of the calls."""
    hosts: list[HostName] = []
    """Host names by which clients call this listener, without a port; `*.` at the beginning stands for any labels, `*`
    alone for every name. Requests for other names get 421. Without it, a listener on a loopback address answers to
    `localhost` and loopback addresses, and one that other machines reach answers to every name."""
    public_url: Annotated[str, AfterValidator(_public_url)] | None = None
    """The public base URL, for `requestURL` and `source`. By default it comes from the request's `Host`."""
    max_body_bytes: Annotated[int, Field(ge=1024, le=1 << 30)] = 6 * 1024 * 1024
    """Maximum size of a request body, in bytes (413)."""
    max_in_flight: Annotated[int, Field(ge=1, le=10_000)] = 256
    """Maximum number of calls in flight per worker (503)."""
    limits: ListenerLimits = ListenerLimits()
    """Limits per client and for all clients together."""

    def receives(self, url: str) -> bool:
        """Whether a request to this URL comes in here."""
        return leads_to(url, self.listen, self.path)


class FnSinkConfig(Config):
    """Sends events to a function. What the function returns becomes a reply; the gateway sets source, id and time."""

    function: SinkRef
    """The function: a sink that returns replies, such as `http://HOST/`. Its default codec is `fn`."""
    version: Literal["as-is", "0.1", "1.0"] = "as-is"
    """The CloudEvents version of sent events: their own, or one that all events are converted to."""
    deadline_s: Seconds | None = None
    """Maximum time for an event from its first attempt, including retries, in seconds; default: the delivery's
    `timeout_s`. After that the event goes to the dead letter."""


class FnCodecConfig(Config):
    """CloudEvents for functions. Writes structured mode; reads every mode and version."""

    lenient: bool = False
    """Accepts events as functions return them: `source`, id and type may be missing. Always on for functions named by
    `function:`."""
