"""Our options as properties of Kafka's Java clients, for readers that run on them. Files are embedded in the
properties, so that they are valid on any machine."""

from __future__ import annotations

from pathlib import Path

from .client import KafkaFault
from .client_config import KafkaConfig, KafkaTlsConfig, SaslConfig

_MODULES = "org.apache.kafka.common.security"


def properties(config: KafkaConfig) -> dict[str, str]:
    """Properties of a consumer. Raises `KafkaFault` for options that Java does not support, and for files that can't be
    read."""
    secure = config.tls is not None
    protocol = ("SASL_SSL" if secure else "SASL_PLAINTEXT") if config.sasl else ("SSL" if secure else "PLAINTEXT")
    found = {
        "bootstrap.servers": ",".join(config.bootstrap),
        "client.id": config.client_id,
        "request.timeout.ms": str(round(config.request_timeout_s * 1000)),
        "isolation.level": "read_committed",
        "security.protocol": protocol,
    }
    if config.tls is not None:
        found |= _tls(config.tls)
    if config.sasl is not None:
        found |= _sasl(config.sasl)
    return found


def _tls(tls: KafkaTlsConfig) -> dict[str, str]:
    found: dict[str, str] = {}
    if tls.ca_file is not None:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": _text(tls.ca_file)}
    if tls.cert_file is not None:
        chain, key = _text(tls.cert_file), _text(tls.key_file or tls.cert_file)
        if "PRIVATE KEY-----" in key and not ("BEGIN PRIVATE KEY" in key or "BEGIN ENCRYPTED PRIVATE KEY" in key):
            raise KafkaFault(
                f"Java reads private keys only in PKCS #8: convert {tls.key_file or tls.cert_file} with "
                "`openssl pkcs8 -topk8`",
                retry=False,
            )
        found |= {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": chain, "ssl.keystore.key": key}
        if tls.key_password is not None:
            found["ssl.key.password"] = tls.key_password
    if not tls.verify_host:
        found["ssl.endpoint.identification.algorithm"] = ""
    return found


def _sasl(sasl: SaslConfig) -> dict[str, str]:
    if sasl.mechanism == "OAUTHBEARER":
        raise KafkaFault("a reader that runs on Java can't use OAUTHBEARER; use SCRAM or mutual TLS", retry=False)
    module = "plain.PlainLoginModule" if sasl.mechanism == "PLAIN" else "scram.ScramLoginModule"
    who = f"username={_quoted(sasl.username or '')} password={_quoted(sasl.password or '')}"
    return {"sasl.mechanism": sasl.mechanism, "sasl.jaas.config": f"{_MODULES}.{module} required {who};"}


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as e:
        raise KafkaFault(f"{path} can't be read: {e}", retry=False, credentials=True) from e
