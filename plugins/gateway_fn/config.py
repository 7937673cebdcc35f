"""Options of the `fn` source, sink and codec."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from gateway_core.asgi import checked_path, split_address
from gateway_core.component import Config, SinkRef
from gateway_core.serving.limits import ListenerLimits, Seconds


def _listen(text: str) -> str:
    split_address(text)
    return text


def _public_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError("write http://HOST[:PORT][/PATH] or https://…, without query")
    return text.rstrip("/")


class FnSourceConfig(Config):
    """Calls a function with every HTTP request. The event that it returns is published and becomes the response."""

    listen: Annotated[str, AfterValidator(_listen)] = "127.0.0.1:8080"
    """Address to listen on, `HOST:PORT`; shared with no other source. Port 0 takes a free one."""
    path: Annotated[str, AfterValidator(checked_path)] = "/"
    """The path that requests come to, with any method. One that ends with `/` stands for all paths below it."""
    function: SinkRef
    """Where the function is: a sink that brings back replies, such as `http://HOST/`. Its codec is `fn` where it says
    nothing else."""
    timeout_s: Seconds = 30.0
    """How long the function has, in seconds: its deadline. The caller gets 504 after that."""
    version: Literal["0.1", "1.0"] = "0.1"
    """The version of CloudEvents in which the function is called."""
    public_url: Annotated[str, AfterValidator(_public_url)] | None = None
    """What callers write before the path, for `requestURL` and `source`; where absent it is taken from the request's
    `Host`."""
    max_body_bytes: Annotated[int, Field(ge=1024, le=1 << 30)] = 6 * 1024 * 1024
    """The longest request body, in bytes (413)."""
    max_in_flight: Annotated[int, Field(ge=1, le=10_000)] = 256
    """How many calls may be under way at once, per worker (503)."""
    limits: ListenerLimits = ListenerLimits()
    """How much one client may ask for, and all of them together."""


class FnSinkConfig(Config):
    """Sends events to a function. What it returns becomes a reply, with source, id and time set by the gateway."""

    function: SinkRef
    """Where the function is: a sink that brings back replies, such as `http://HOST/`. Its codec is `fn` where it says
    nothing else."""
    version: Literal["as-is", "0.1", "1.0"] = "as-is"
    """The version of CloudEvents in which events are sent: their own, or one into which the others are converted."""
    deadline_s: Seconds | None = None
    """How long an event may take from its first attempt on, in seconds, retries included; the delivery's `timeout_s`
    where absent. After that it goes to the dead letter."""


class FnCodecConfig(Config):
    """CloudEvents for functions: written in structured mode. Every mode and version is read."""

    lenient: bool = False
    """Takes events as functions return them: `source`, id and type may be missing. Functions that are named by
    `function:` are always read like that."""
