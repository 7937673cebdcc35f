"""Options of the `http` transport."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from gateway_access.config import AccessConfig
from gateway_cloudevents.config import CloudEventsConfig
from gateway_options.client_tls import ClientTlsConfig
from gateway_options.headers import Headers, checked_headers
from gateway_options.url import Url, in_the_clear
from gateway_serving.address import leads_to
from gateway_serving.hosts import HostName
from gateway_serving.limits import Bytes, ListenerLimits, Seconds
from gateway_serving.listen import Listen, UrlPath
from gateway_serving.tls import ServerTlsConfig
from pydantic import Field, model_validator

from gateway_core.contract.component import CodecRef, Config
from gateway_core.contract.config_node import Place
from gateway_core.contract.durations import Duration

from .credentials.config import CredentialsConfig
from .webhook_config import HandshakeReceiverConfig, HandshakeSenderConfig


class LimitsConfig(ListenerLimits):
    """Limits per client and for all clients together. A request beyond a limit gets an error response, and its
    connection is closed."""

    max_body_bytes: Bytes = 1024 * 1024
    """Maximum size of a body, in bytes (413)."""


class HttpSourceConfig(AccessConfig):
    """Receives events over HTTP: `POST` to the path. Sources with the same `listen` share the socket and differ by
    path."""

    listen: Listen = "127.0.0.1:8080"
    """Address to listen on, `HOST:PORT`. Port 0 picks a free port, which no other source shares."""
    path: UrlPath = "/"
    """The exact path that events are posted to. The query string is ignored."""
    codec: CodecRef = CodecRef("cloudevents")
    """How requests become events."""
    server: Literal["native", "hypercorn"] = "native"
    """The HTTP engine. `native` is the fast one (HTTP/1.1). `hypercorn` passes HTTP/2 connections to Hypercorn and
    serves all others with the native engine."""
    hosts: list[HostName] = []
    """Host names by which clients call this listener, without a port; `*.` at the beginning stands for any labels, `*`
    alone for every name. Requests for other names get 421. Without it, a listener on a loopback address answers to
    `localhost` and loopback addresses, and one that other machines reach answers to every name."""
    tls: ServerTlsConfig | None = None
    """Serves HTTPS."""
    limits: LimitsConfig = LimitsConfig()
    """Limits for clients."""
    webhook: HandshakeReceiverConfig | None = None
    """Grants permission to webhook senders that ask for it. Without it, nobody gets permission."""

    @property
    def guarded(self) -> bool:
        return super().guarded or self.webhook is not None

    @property
    def closed(self) -> bool:
        """See `AccessConfig`."""
        return super().closed or (self.tls is not None and self.tls.client_ca_file is not None)

    def receives(self, url: str) -> bool:
        """Whether a request to this URL comes in here."""
        return leads_to(url, self.listen, self.path)


class BatchConfig(Config):
    """Sends several events in one request, as `application/cloudevents-batch+json`."""

    max_events: Annotated[int, Field(ge=1, le=10_000)] = 100
    """How many events one request has at most."""
    max_bytes: Bytes = 512 * 1024
    """How long its body may be, in bytes. A longer event goes alone."""
    wait: Annotated[Duration, Field(le=10)] = 0.02
    """How long the first event waits for others: seconds, or with a unit, like `20ms`."""


class HttpSinkConfig(Config):
    """Delivers each event with one HTTP `POST`, or several together with `batch`."""

    url: Url
    """Where to send events, `http://` or `https://`. A user and password in the URL are sent as basic
    authentication."""
    codec: CodecRef = CodecRef("cloudevents")
    """How events become requests."""
    client: Literal["native", "httpx"] = "native"
    """The HTTP engine: `native` is the fast one (HTTP/1.1); `httpx` also speaks HTTP/2 and uses the environment's
    proxies."""
    headers: Headers = {}
    """Additional header fields for each request, such as `Authorization`."""
    max_connections: Annotated[int, Field(ge=1, le=10_000)] = 256
    """Maximum number of connections; as many stay open when idle. The native client has one request in flight per
    connection, so this also limits the attempts in flight, even if `max_in_flight` is higher."""
    connect_timeout_s: Seconds = 10.0
    """Timeout for a new connection, in seconds."""
    tls: ClientTlsConfig = ClientTlsConfig()
    """Certificates for `https://`."""
    credentials: CredentialsConfig | None = None
    """What the sink proves itself with at the subscriber. Client certificates are in `tls`."""
    probe: bool = False
    """Sends an `OPTIONS` request before the first event. Events are sent whatever the response is. To send only with
    permission, use `webhook`."""
    webhook: HandshakeSenderConfig | None = None
    """Asks for permission to send, and keeps to the granted rate."""

    batch: BatchConfig | None = None
    """Sends several events in one request, to a subscriber that takes batches. One response is that of all, unless its
    body has a status for each."""

    @model_validator(mode="after")
    def _batches(self) -> Self:
        if self.batch is None:
            return self
        options = self.codec.raw if isinstance(self.codec.raw, dict) else {}
        if self.codec.name != "cloudevents":
            raise ValueError(f"`batch` writes events in the JSON batch format, the codec {self.codec.name!r} does not")
        if options.get("mode") == "binary" or options.get("attribute_headers"):
            raise ValueError("a batch has its events in the body: leave out `mode: binary` and `attribute_headers`")
        if self.client != "native":
            raise ValueError("`batch` needs `client: native`")
        if self.webhook is not None:
            raise ValueError("`webhook` grants a rate of single requests: use it without `batch`")
        if self.credentials is not None and self.credentials.standard_webhooks is not None:
            raise ValueError("Standard Webhooks signs one event with its id: sign batches with `hmac`")
        return self

    @model_validator(mode="after")
    def _asks_once(self) -> HttpSinkConfig:
        if self.webhook is not None:
            if self.probe:
                raise ValueError("`probe` sends whatever the response is, `webhook` only with permission: set one")
            if any(name.lower() == "webhook-request-origin" for name in self.headers):
                raise ValueError("`webhook` sets the header WebHook-Request-Origin itself: remove it from `headers`")
        return self

    @model_validator(mode="after")
    def _one_proof(self) -> Self:
        if self.credentials is not None:
            names = self.credentials.header_names()
            checked_headers(dict.fromkeys(names, ""))
            if found := next((name for name in self.headers if name.lower() in names), None):
                raise ValueError(f"`credentials` sets {found!r}: leave it out of `headers`")
            if self.credentials.bearer and urlsplit(self.url).username is not None:
                raise ValueError("`credentials` sets `Authorization`: leave user and password out of the URL")
        return self

    def warnings(self) -> Iterator[tuple[Place, str, str]]:
        """See `Config`."""
        if self.webhook is not None and in_the_clear(self.url):
            yield ("webhook",), "anyone on the way can read the events, and grant permission", "use https://"
        if self.credentials is None:
            return
        if self.credentials.bearer:
            if in_the_clear(self.url):
                yield ("credentials",), "the token can be read on the way, and used by others", "use https://"
            elif self.url.startswith("https:") and not self.tls.verify:
                yield ("tls", "verify"), "whoever answers gets the token", "set `ca_file` instead"
            return
        if in_the_clear(self.url):
            yield ("credentials",), "signed events can be read in transit, and replayed", "use https://"
        if isinstance(self.codec.options, CloudEventsConfig) and self.codec.options.mode == "binary":
            text = "the signature covers the body only, and in binary mode the attributes are header fields"
            yield ("credentials",), text, "set `codec: {cloudevents: {mode: structured}}`"
