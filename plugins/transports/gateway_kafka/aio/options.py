"""Our options as aiokafka's keyword arguments."""

from __future__ import annotations

import ssl
from typing import Any

from aiokafka.abc import AbstractTokenProvider

from ..client import KafkaFault
from ..client_config import KafkaConfig, KafkaTlsConfig, SaslConfig
from ..oauth import Tokens

_RETRY_MS = 100
_REQUESTS_TO_CONNECT = 6
"""Versions and metadata, again at another address, a producer id, and the topics."""


def client_options(config: KafkaConfig) -> dict[str, Any]:
    """Keyword arguments that aiokafka's producer, consumer and admin client have in common. Reads certificates. Raises
    `KafkaFault` with `credentials` if they can't be used."""
    return connection_options(config) | {
        "bootstrap_servers": list(config.bootstrap),
        "retry_backoff_ms": _RETRY_MS,
    }


def connect_limit_s(config: KafkaConfig) -> float:
    """The time limit for connecting, in seconds: it takes several requests, each with a limit of its own in aiokafka.
    With the limit of one for all, a client far from its cluster would never connect."""
    return _REQUESTS_TO_CONNECT * config.request_timeout_s


def connection_options(config: KafkaConfig) -> dict[str, Any]:
    """The subset that a single connection needs."""
    secure = config.tls is not None
    protocol = ("SASL_SSL" if secure else "SASL_PLAINTEXT") if config.sasl else ("SSL" if secure else "PLAINTEXT")
    options: dict[str, Any] = {
        "client_id": config.client_id,
        "request_timeout_ms": round(config.request_timeout_s * 1000),
        "security_protocol": protocol,
    }
    if config.tls is not None:
        options["ssl_context"] = _context(config.tls)
    if config.sasl is not None:
        options |= _sasl(config.sasl, config.request_timeout_s)
    return options


def _context(tls: KafkaTlsConfig) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=None if tls.ca_file is None else str(tls.ca_file))
        context.check_hostname = tls.verify_host
        if tls.cert_file is not None:
            # a function: without one, OpenSSL would prompt for a password on the terminal
            context.load_cert_chain(tls.cert_file, tls.key_file, lambda: tls.key_password or "")
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        password = " (or key_password is not the key's)" if tls.key_file is not None else ""
        text = f"the certificates can't be used{password}: {error}"
        raise KafkaFault(text, retry=False, credentials=True) from error
    return context


def _sasl(sasl: SaslConfig, timeout_s: float) -> dict[str, Any]:
    options: dict[str, Any] = {"sasl_mechanism": sasl.mechanism}
    if sasl.oauth is not None and sasl.mechanism == "OAUTHBEARER":
        return options | {"sasl_oauth_token_provider": _Provider(Tokens(sasl.oauth, timeout_s))}
    return options | {"sasl_plain_username": sasl.username, "sasl_plain_password": sasl.password}


class _Provider(AbstractTokenProvider):  # type: ignore[misc]
    """Gives aiokafka a token for each new connection."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    async def token(self) -> str:
        try:
            return (await self._tokens.token()).value
        except KafkaFault as fault:
            # aiokafka treats an OSError as a failed connection and retries
            raise TokenError(str(fault)) from fault


class TokenError(OSError):
    """No token could be obtained; its cause is the `KafkaFault`."""
