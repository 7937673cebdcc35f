"""Our options as librdkafka's properties."""

from __future__ import annotations

import ssl
from typing import Any

from gateway_kafka.client import KafkaFault
from gateway_kafka.client_config import KafkaConfig, KafkaProducerConfig, KafkaTlsConfig, SaslConfig
from gateway_kafka.oauth import Tokens

_REBALANCE_MS = 300_000
_RECONNECT_MOST_MS = 2000  # librdkafka's default of 10 s is long for a broker that is back


def client_options(config: KafkaConfig) -> dict[str, Any]:
    """The properties that producer and consumer share."""
    secure = config.tls is not None
    protocol = ("sasl_ssl" if secure else "sasl_plaintext") if config.sasl else ("ssl" if secure else "plaintext")
    options: dict[str, Any] = {
        "bootstrap.servers": ",".join(config.bootstrap),
        "client.id": config.client_id,
        "security.protocol": protocol,
        "socket.timeout.ms": max(10, round(config.request_timeout_s * 1000)),
        "reconnect.backoff.ms": 100,
        "reconnect.backoff.max.ms": _RECONNECT_MOST_MS,
        "log.connection.close": False,
        "enable.metrics.push": False,
    }
    if config.tls is not None:
        options |= _tls(config.tls)
    if config.sasl is not None:
        options |= _sasl(config.sasl)
    return options


def producer_options(config: KafkaProducerConfig) -> dict[str, Any]:
    """The properties of a producer, without `linger.ms`."""
    timeout_ms = max(1, round(config.delivery_timeout_s * 1000))
    return client_options(config) | {
        "enable.idempotence": True,
        "acks": "all",
        "partitioner": "murmur2_random",  # the hash of the Java client; librdkafka's default differs
        "message.timeout.ms": timeout_ms,
        "request.timeout.ms": max(1, round(min(config.request_timeout_s, config.delivery_timeout_s) * 1000)),
        # a batch must not be larger than the cluster allows a record to be
        "message.max.bytes": config.max_record_bytes,
        "batch.size": min(config.batch_bytes, config.max_record_bytes),
        "compression.type": config.compression,
        # we limit the queue ourselves (`max_queue_bytes`): librdkafka might accept only some records of an append
        "queue.buffering.max.messages": 0,
        "queue.buffering.max.kbytes": 2_147_483_647,
        # else a topic that was missing this long is looked up only every few minutes (twice this value overflows)
        "topic.metadata.propagation.max.ms": 1_800_000,
    }


def consumer_options(config: KafkaConfig, group: str, session_timeout_s: float) -> dict[str, Any]:
    """The properties of a group member."""
    session_ms = max(100, round(session_timeout_s * 1000))
    return client_options(config) | {
        "group.id": group,
        "session.timeout.ms": session_ms,
        "heartbeat.interval.ms": max(1, min(1000, session_ms // 3)),
        "max.poll.interval.ms": max(_REBALANCE_MS, session_ms),
        "partition.assignment.strategy": "cooperative-sticky",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "allow.auto.create.topics": False,  # reading must not create topics
        "auto.offset.reset": "error",  # we choose the offset ourselves, and log what is missing
        "isolation.level": "read_committed",
        "enable.partition.eof": True,  # reports the end after aborted records and transaction markers
        # a broker answers at once if it has records; a newly assigned or resumed partition waits at most this long
        "fetch.wait.max.ms": 100,
        "fetch.error.backoff.ms": 100,
        # librdkafka's own queue: smaller than the default of 64 MiB to save memory, and checked often
        "queued.max.messages.kbytes": 16 * 1024,
        "queued.min.messages": 20_000,
        "fetch.queue.backoff.ms": 5,
        "topic.metadata.refresh.interval.ms": 10_000,  # how soon a new topic is discovered
    }


def tokens_of(config: KafkaConfig) -> Tokens | None:
    """The source of tokens for OAUTHBEARER."""
    if config.sasl is None or config.sasl.mechanism != "OAUTHBEARER":
        return None
    assert config.sasl.oauth is not None
    return Tokens(config.sasl.oauth, config.request_timeout_s)


def _tls(tls: KafkaTlsConfig) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if tls.ca_file is not None:
        options["ssl.ca.location"] = str(tls.ca_file)
    else:
        system = ssl.get_default_verify_paths()  # also honours SSL_CERT_FILE
        if location := system.cafile or system.capath:
            options["ssl.ca.location"] = location
    if tls.cert_file is not None:
        options["ssl.certificate.location"] = str(tls.cert_file)
        # one file may hold both, as with Python's ssl
        options["ssl.key.location"] = str(tls.key_file or tls.cert_file)
    if tls.key_password is not None:
        options["ssl.key.password"] = tls.key_password
    if not tls.verify_host:
        options["ssl.endpoint.identification.algorithm"] = "none"
    for file in (tls.ca_file, tls.cert_file, tls.key_file):
        if file is not None and not file.is_file():
            raise KafkaFault(f"the certificates can't be used: there is no file {file}", retry=False, credentials=True)
    return options


def _sasl(sasl: SaslConfig) -> dict[str, Any]:
    options: dict[str, Any] = {"sasl.mechanism": sasl.mechanism}
    if sasl.mechanism != "OAUTHBEARER":
        options |= {"sasl.username": sasl.username, "sasl.password": sasl.password}
    return options
