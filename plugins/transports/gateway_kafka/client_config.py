"""Options that every client of a Kafka cluster needs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from gateway_options.addresses import Address, Listed
from pydantic import Field, model_validator

from gateway_core.contract.component import ClientRef, Config

Seconds = Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)]


class KafkaTlsConfig(Config):
    """Certificates for a TLS listener."""

    ca_file: Path | None = None
    """Trusted certificate authorities (PEM), in place of the system's."""
    cert_file: Path | None = None
    """The client certificate chain (PEM), for mutual TLS."""
    key_file: Path | None = None
    """The private key of the certificate (PEM)."""
    key_password: str | None = None
    """The password of the private key; use `${secret:NAME}`."""
    verify_host: bool = True
    """Whether the certificate must match the host name."""


class OAuthConfig(Config):
    """The source of tokens for OAUTHBEARER: a file, or an OAuth 2.0 token endpoint (RFC 6749 section 4.4)."""

    token_file: Path | None = None
    """A file with the token; it is read for each new connection."""
    token_url: str | None = None
    """The token endpoint, which is called with the client's credentials."""
    client_id: str | None = None
    """The client id for the token endpoint."""
    client_secret: str | None = None
    """The client secret; use `${secret:NAME}`."""
    scope: str | None = None
    """The scope to request."""

    @model_validator(mode="after")
    def _one_way(self) -> OAuthConfig:
        if (self.token_file is None) == (self.token_url is None):
            raise ValueError("set either `token_file` or `token_url`")
        if self.token_url is not None and (self.client_id is None or self.client_secret is None):
            raise ValueError("`token_url` needs `client_id` and `client_secret`")
        return self


class SaslConfig(Config):
    """Credentials for a SASL listener."""

    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] = "SCRAM-SHA-512"
    """The SASL mechanism."""
    username: str | None = None
    """The user name, for PLAIN and SCRAM."""
    password: str | None = None
    """The password; use `${secret:NAME}`."""
    oauth: OAuthConfig | None = None
    """The source of the token, for OAUTHBEARER."""

    @model_validator(mode="after")
    def _complete(self) -> SaslConfig:
        if self.mechanism == "OAUTHBEARER":
            if self.oauth is None:
                raise ValueError("OAUTHBEARER needs `oauth`")
        elif self.username is None or self.password is None:
            raise ValueError(f"{self.mechanism} needs `username` and `password`")
        return self


class KafkaConfig(Config):
    """The connection to a cluster."""

    bootstrap: Listed[Address] = ["127.0.0.1:9092"]
    """One or more bootstrap servers, `HOST:PORT`, as a list or separated by commas."""
    client: ClientRef = ClientRef("aiokafka")
    """The client library: `aiokafka` is pure asyncio; `confluent` (librdkafka) uses less CPU and rebalances
    cooperatively."""
    client_id: str = "tidegate"
    """The name of this client in the cluster's logs and quotas."""
    tls: KafkaTlsConfig | None = None
    """Connects with TLS; `tls: {}` trusts the system's certificate authorities."""
    sasl: SaslConfig | None = None
    """Authenticates with SASL."""
    request_timeout_s: Seconds = 20.0
    """The time limit for one request to the cluster, in seconds."""


class KafkaProducerConfig(KafkaConfig):
    """How records are written."""

    linger_ms: Annotated[float, Field(ge=0, le=1000)] = 0.0
    """How long a record waits for others to join its batch, in milliseconds. With 0 it is sent at once if nothing is in
    flight, else with the next batch."""
    batch_bytes: Annotated[int, Field(ge=1024, le=1 << 30)] = 256 * 1024
    """The maximum size of a batch of records, in bytes."""
    max_record_bytes: Annotated[int, Field(ge=1024, le=1 << 30)] = 1024 * 1024
    """The maximum size of a record, in bytes; larger ones can't be delivered. The cluster's `message.max.bytes` and the
    topic's `max.message.bytes` must allow it. Otherwise the records of a rejected batch are sent again one by one, with
    `client: confluent` after later records with the same key."""
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "none"
    """The compression of batches."""
    delivery_timeout_s: Seconds = 30.0
    """The time limit for the acknowledgement of a record, including all retries of the client, in seconds."""
