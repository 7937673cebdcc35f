"""Options of the transport `websocket`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from gateway_access.config import AccessConfig
from gateway_options.secrecy import shown_url
from gateway_serving.limits import Seconds
from gateway_transport.held_bytes import HeldBytesConfig
from gateway_transport.not_an_event import NotAnEventConfig
from pydantic import Field, model_validator

from gateway_core.contract.config_node import Place

from .options import WebSocketConfig


class ConnectingConfig(WebSocketConfig):
    """An end that `tidegate check --connect` can try."""

    @property
    def end(self) -> str:
        """What `tidegate check --connect` tries."""
        if self.url is None:
            return f"WebSocket clients at {self.listen}"
        return f"WebSocket at {shown_url(self.shown('url') or self.url, hidden=self.hides('url'))}"

    def connect(self, limit_s: float) -> None:
        """Connects, and agrees on a subprotocol. Raises `OSError` with the reason."""
        if self.url is not None:
            from .probe import try_connection

            try_connection(self, limit_s)


class WebSocketSourceConfig(ConnectingConfig, NotAnEventConfig, HeldBytesConfig, AccessConfig):
    """Receives events, each as one text message, over WebSocket connections. Where events are acknowledged, a message
    that is not an event is refused; `not_an_event` is for the other connections. Who may send is checked in the opening
    handshake; all events of a connection have its sender."""

    max_unacknowledged: Annotated[int, Field(ge=1, le=100_000)] = 1000
    """How many events of a connection may be under way. Beyond that, nothing more is read from it."""
    recheck_s: Seconds | None = 60.0
    """With `authenticate`: how often the credentials of an open connection are checked again, in seconds. The
    connection ends (1008) if they were revoked or have expired. `null` checks them once, for credentials that can't be
    checked twice."""

    @model_validator(mode="after")
    def _access(self) -> WebSocketSourceConfig:
        names = [*AccessConfig.model_fields, "recheck_s"]
        if self.url is not None and (wrong := [name for name in names if name in self.model_fields_set]):
            raise ValueError(f"`{wrong[0]}` has a meaning only with `listen`")
        return self

    @property
    def closed(self) -> bool:
        """See `gateway_access.exposure.LettingIn`."""
        return super().closed or bool(self.authenticate or self.anonymous is False)

    @property
    def signable(self) -> bool:
        """See `AccessConfig`. What is checked is the opening handshake."""
        return False

    @property
    def pulls(self) -> bool:
        """Whether some senders wait for no answer, so that a bridge retries for as long as necessary."""
        return self.acknowledged != "required"

    def warnings(self) -> Iterator[tuple[Place, str, str]]:
        """See `Config`."""
        yield from self.credential_warnings()
        if self.acknowledge in (None, "off"):
            yield (
                ("acknowledge",) if self.acknowledge else (),
                "senders that use `cloudevents.json` get no acknowledgement: their events arrive at most once",
                "`acknowledge: required` refuses such senders; `acknowledge: optional` accepts that",
            )


class WebSocketSinkConfig(ConnectingConfig):
    """Sends each event as one text message over a WebSocket connection. With `listen`, each event goes to one of the
    connected subscribers."""

    anonymous: bool | None = None
    """With `listen`: `true` if subscribers need no `token`. On an address other than loopback, one of both must be
    there."""

    @model_validator(mode="after")
    def _access(self) -> WebSocketSinkConfig:
        if self.url is not None and self.anonymous is not None:
            raise ValueError("`anonymous` has a meaning only with `listen`")
        return self

    def warnings(self) -> Iterator[tuple[Place, str, str]]:
        """See `Config`."""
        yield from self.credential_warnings()
        if self.acknowledge in (None, "off"):
            yield (
                ("acknowledge",) if self.acknowledge else (),
                "with `cloudevents.json`, an event counts as delivered once it is written to the socket: at most once",
                "`acknowledge: required` insists on acknowledgements; `acknowledge: optional` accepts that",
            )
