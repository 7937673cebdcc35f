"""Options that every connection to an MQTT server needs."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from gateway_options.client_tls import ClientTlsConfig
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from gateway_core.contract.component import Config

CONTROL = r"\x00-\x1f\x7f-\x9f"
"""Control characters, in a class of a pattern."""
NO_CHARACTERS = r"\ufdd0-\ufdef" + "".join(chr(plane << 16 | last) for plane in range(17) for last in (0xFFFE, 0xFFFF))
"""Code points that are no characters, in a class of a pattern. A server may close the connection for them, as for
control characters (MQTT 5 section 1.5.4); mosquitto does."""
MOST_BYTES = 65_535
"""The most bytes of a string in MQTT (MQTT 5 section 1.5.4)."""

_SERVER = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^:\[\]/\s,@]+)(?::(\d{1,5}))?")

Seconds = Annotated[int, Field(ge=0, le=0xFFFF_FFFF)]
Qos = Literal[0, 1, 2]


def _server(text: str) -> str:
    found = _SERVER.fullmatch(text)
    if found is None or (found[2] is not None and not 0 < int(found[2]) < 65536):
        raise ValueError("must be HOST or HOST:PORT, with an IPv6 host in brackets")
    return text


def _text(value: Any) -> Any:
    return str(value) if type(value) is int else value


def _string(text: str) -> str:
    if len(text.encode(errors="replace")) > MOST_BYTES:
        raise ValueError(f"has more than {MOST_BYTES} bytes, the most that MQTT takes")
    return text


String = Annotated[str, AfterValidator(_string)]


class WillConfig(Config):
    """A message that the server publishes if this connection breaks, and not if it is closed."""

    topic: Annotated[str, Field(min_length=1, pattern=rf"^[^+#{CONTROL}]+$")]
    """The topic."""
    payload: String = ""
    """The payload."""
    qos: Qos = 1
    """The quality of service."""
    retain: bool = False
    """Whether the server keeps it for later subscribers."""
    delay_s: Seconds = 0
    """How long the server waits for the client to come back, in seconds. MQTT 5 only."""


class MqttConfig(Config):
    """A connection to an MQTT server."""

    server: Annotated[str, AfterValidator(_server)] = "127.0.0.1"
    """The server, `HOST` or `HOST:PORT`. The port is 1883 by default, and 8883 with TLS."""
    version: Annotated[
        Literal["5", "3.1.1"], BeforeValidator(_text, json_schema_input_type=Literal["5", "3.1.1", 5])
    ] = "5"
    """The protocol's version. With 3.1.1 events are always structured, since its messages have no properties."""
    username: String | None = None
    """The user name."""
    password: String | None = None
    """The password; use `${secret:NAME}`."""
    tls: ClientTlsConfig | None = None
    """Connects with TLS; `tls: {}` trusts the system's certificate authorities."""
    keep_alive_s: Annotated[int, Field(ge=1, le=65_535)] = 30
    """After how many seconds without any packet the connection is probed. A server that does not answer for as long
    again is given up."""
    connect_timeout_s: Annotated[float, Field(gt=0, le=300)] = 10.0
    """The time limit for connecting and logging in, in seconds."""
    will: WillConfig | None = None
    """A message that the server publishes if this connection breaks."""

    @property
    def host_and_port(self) -> tuple[str, int]:
        """The host without brackets, and the port."""
        found = _SERVER.fullmatch(self.server)
        assert found is not None
        return found[1].strip("[]"), int(found[2] or (8883 if self.tls is not None else 1883))

    @property
    def url(self) -> str:
        """The server as a URL."""
        host, port = self.host_and_port
        return f"mqtt{'s' if self.tls is not None else ''}://{f'[{host}]' if ':' in host else host}:{port}"

    @model_validator(mode="after")
    def _complete(self) -> MqttConfig:
        if self.password is not None and self.username is None and self.version != "5":
            raise ValueError("with MQTT 3.1.1 a `password` needs a `username`")
        if self.version != "5" and self.will is not None and self.will.delay_s:
            raise ValueError("`will.delay_s` needs version 5")
        return self
