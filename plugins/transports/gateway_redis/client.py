"""Clients of redis-py for the options of a config."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from typing import Any, Protocol, cast

from gateway_options.client_tls import client_context
from redis.asyncio import Redis
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.connection import Connection, ConnectionPool, SSLConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool, SentinelManagedConnection
from redis.backoff import NoBackoff

from .connection_config import RedisConfig, host_and_port

_RAW = ("XREADGROUP", "XAUTOCLAIM", "XCLAIM", "XPENDING", "XADD", "XINFO GROUPS", "XINFO CONSUMERS", "XINFO STREAM")


class Pipeline(Protocol):
    """Commands that are sent together."""

    def execute_command(self, *args: Any) -> Any: ...

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        """The answers; with `raise_on_error=False` errors of single commands are among them."""


class Client(Protocol):
    """What we use of a client, of one server or of a cluster."""

    async def execute_command(self, *args: Any) -> Any: ...

    def pipeline(self, transaction: bool = ...) -> Any: ...

    def set_response_callback(self, command: str, callback: Any) -> None: ...

    async def aclose(self) -> None: ...


class _Tls(SSLConnection):
    """Uses our own TLS context."""

    def __init__(self, tls_context: ssl.SSLContext, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.ssl_context.context = tls_context


class _SentinelTls(SentinelManagedConnection, _Tls):
    pass


def client(config: RedisConfig, owner: str) -> Client:
    """A client, not connected yet. It never repeats a command by itself: that would hide duplicates. Raises
    `StartError` if certificates can't be used."""
    common: dict[str, Any] = {
        "username": config.username,
        "password": config.password,
        "socket_timeout": config.timeout_s,
        "socket_connect_timeout": config.timeout_s,
        "protocol": 2,
        "driver_info": None,
        "max_connections": 100_000,  # its default is 100: fewer than a source of many streams needs
    }
    found: Any
    if config.cluster:
        found = _cluster(config, owner, common)
    else:
        common |= {"db": config.db, "retry": Retry(NoBackoff(), 0)}
        found = _of_sentinel(config, owner, common) if config.sentinel is not None else _single(config, owner, common)
    for command in _RAW:
        found.set_response_callback(command, _as_it_is)
    return cast(Client, found)


async def close(redis: Client) -> None:
    """Closes all connections. The client's own `aclose` leaves those of sentinels open, and of a cluster those that
    were made while it was not known whole."""
    await redis.aclose()
    if isinstance(redis, RedisCluster):
        for nodes in ("nodes_cache", "startup_nodes"):
            await redis.nodes_manager.aclose(nodes)
    elif isinstance(redis, Redis) and isinstance(redis.connection_pool, SentinelConnectionPool):
        for one in redis.connection_pool.sentinel_manager.sentinels:
            await one.aclose()


def _as_it_is(response: Any, **options: Any) -> Any:
    return response


def _single(config: RedisConfig, owner: str, common: dict[str, Any]) -> Redis:
    host, port = host_and_port(config.servers[0])
    connection: dict[str, Any] = {"connection_class": Connection}
    if config.tls is not None:
        connection = {"connection_class": _Tls, "tls_context": client_context(config.tls, owner)}
    return Redis.from_pool(ConnectionPool(host=host, port=port, **connection, **common))


def _of_sentinel(config: RedisConfig, owner: str, common: dict[str, Any]) -> Redis:
    assert config.sentinel is not None
    sentinel = config.sentinel
    shared = {k: v for k, v in common.items() if k not in ("db", "username", "password", "max_connections")}
    connection: dict[str, Any] = {}
    if config.tls is not None:
        tls_context = client_context(config.tls, owner)
        connection = {"connection_class": _SentinelTls, "tls_context": tls_context}
        shared |= {"ssl": True, **_files(config)}
    sentinels = Sentinel(  # type: ignore[no-untyped-call]
        [host_and_port(node) for node in sentinel.nodes],
        sentinel_kwargs={**shared, "username": sentinel.username, "password": sentinel.password},
    )
    return cast(Redis, sentinels.master_for(sentinel.service, **connection, **common))


def _cluster(config: RedisConfig, owner: str, common: dict[str, Any]) -> RedisCluster:
    if config.tls is not None:
        client_context(config.tls, owner)  # finds faults of the files
        common |= {"ssl": True, **_files(config)}
    nodes = [ClusterNode(*host_and_port(server)) for server in config.servers]
    return RedisCluster(startup_nodes=nodes, retry=Retry(NoBackoff(), 0), **common)


def _files(config: RedisConfig) -> dict[str, Any]:
    assert config.tls is not None
    tls = config.tls
    return {
        "ssl_ca_certs": _path(tls.ca_file),
        "ssl_certfile": _path(tls.cert_file),
        "ssl_keyfile": _path(tls.key_file),
        "ssl_cert_reqs": "required" if tls.verify else "none",
        "ssl_check_hostname": tls.verify,
    }


def _path(path: Any) -> str | None:
    return str(path) if path is not None else None


def pairs(flat: Sequence[Any]) -> dict[bytes, Any]:
    """The names and values of an answer that lists them in turn (RESP2)."""
    return dict(zip(flat[::2], flat[1::2], strict=True))
