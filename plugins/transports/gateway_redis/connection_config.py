"""Options of every connection to Redis."""

from __future__ import annotations

from typing import Annotated

from gateway_options.addresses import Address, Listed
from gateway_options.client_tls import ClientTlsConfig
from pydantic import Field, model_validator

from gateway_core.contract.component import Config

Seconds = Annotated[float, Field(gt=0, le=86400, allow_inf_nan=False)]


def host_and_port(server: str) -> tuple[str, int]:
    """The parts of `HOST:PORT`."""
    host, _, port = server.rpartition(":")
    return host.strip("[]"), int(port)


class SentinelConfig(Config):
    """Sentinels that know which server is the primary."""

    service: Annotated[str, Field(min_length=1)]
    """The name of the service that the sentinels watch (`mymaster`)."""
    nodes: Listed[Address]
    """The sentinels, `HOST:PORT`, as a list or separated by commas."""
    username: str | None = None
    """The user name for the sentinels, if they want one."""
    password: str | None = None
    """The password for the sentinels; use `${secret:NAME}`."""


class RedisConfig(Config):
    """The connection to a server, a cluster, or the primary that sentinels name."""

    servers: Listed[Address] = ["127.0.0.1:6379"]
    """The server, `HOST:PORT`; of a cluster one or more of its nodes, as a list or separated by commas."""
    cluster: bool = False
    """The servers are nodes of a cluster."""
    sentinel: SentinelConfig | None = None
    """Connects to the primary that sentinels name, in place of `servers`."""
    db: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """The number of the database; a cluster has only 0."""
    username: str | None = None
    """The user name (ACL). Without it, a password is that of the user `default`."""
    password: str | None = None
    """The password; use `${secret:NAME}`."""
    tls: ClientTlsConfig | None = None
    """Connects with TLS; `tls: {}` trusts the system's certificate authorities."""
    timeout_s: Seconds = 10.0
    """The time limit for connecting, and for the answer to a command, in seconds."""

    @model_validator(mode="after")
    def _consistent(self) -> RedisConfig:
        if self.cluster and self.sentinel is not None:
            raise ValueError("`cluster` and `sentinel` exclude each other")
        if self.sentinel is not None and "servers" in self.model_fields_set:
            raise ValueError("`sentinel` names the server: leave out `servers`")
        if self.cluster and self.db:
            raise ValueError("a cluster has only the database 0")
        if not self.cluster and len(self.servers) > 1:
            raise ValueError("several servers need `cluster: true`")
        if self.username is not None and self.password is None:
            raise ValueError("`username` needs a `password`")
        return self

    @property
    def where(self) -> str:
        """The server as an address, without credentials."""
        scheme = "redis" if self.tls is None else "rediss"
        if self.sentinel is not None:
            return f"{scheme}://{self.sentinel.visible('service')}"
        return f"{scheme}://{self.servers[0]}" + (f"/{self.db}" if self.db else "")

    @property
    def end(self) -> str:
        """The server and the user, as shown by `tidegate check --connect`."""
        return f"Redis at {self.where}" + (f" as {self.visible('username')}" if self.username else "")
