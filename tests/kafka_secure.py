"""A Kafka broker with a listener of each kind of security, and what a client needs to use them."""

from __future__ import annotations

import base64
import json
import time
from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization as pem
from gateway_java.kafka import KafkaBroker
from gateway_java.kafka_config import Listener, ScramUser

USER, PASSWORD = "ada", "s3cret = with spaces/"
KEY_PASSWORD = "key-s3cret"
_MODULES = "org.apache.kafka.common.security"


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """Files of a client certificate; `encrypted_key_file` is the same key under `KEY_PASSWORD`."""

    cert_file: Path
    key_file: Path
    encrypted_key_file: Path
    key_password: str = KEY_PASSWORD


@dataclass(frozen=True, slots=True)
class SecureKafka:
    """Where the listeners are (`HOST:PORT`), and credentials for them."""

    broker: KafkaBroker
    ca_file: Path
    """Who signed the broker's certificates."""
    other_ca_file: Path
    """Someone who signed nothing here."""
    client: ClientCertificate
    other_client: ClientCertificate
    """A client certificate by the other authority: refused."""
    username: str = USER
    password: str = PASSWORD

    @property
    def bootstrap(self) -> str:
        """Neither TLS nor SASL."""
        return self.broker.bootstrap

    @property
    def tls(self) -> str:
        """TLS."""
        return self.broker.address("TLS")

    @property
    def other_host(self) -> str:
        """TLS with a certificate by the same authority for another host."""
        return self.broker.address("OTHERHOST")

    @property
    def mutual_tls(self) -> str:
        """TLS that demands a client certificate."""
        return self.broker.address("MUTUAL")

    @property
    def plain(self) -> str:
        """SASL PLAIN over TLS."""
        return self.broker.address("PLAIN")

    @property
    def scram_256(self) -> str:
        """SASL SCRAM-SHA-256 over TLS."""
        return self.broker.address("SCRAM256")

    @property
    def scram_512(self) -> str:
        """SASL SCRAM-SHA-512, without TLS."""
        return self.broker.address("SCRAM512")

    @property
    def oauth(self) -> str:
        """SASL OAUTHBEARER over TLS."""
        return self.broker.address("OAUTH")

    def token(self, lifetime_s: float = 3600) -> str:
        """A token that the OAUTHBEARER listener takes (an unsecured JWS); one with a negative lifetime it refuses."""
        now = time.time()
        claims = {"sub": USER, "iat": now + min(lifetime_s, 0) - 1, "exp": now + lifetime_s}
        parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
        return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts) + "."


def start(folder: Path) -> SecureKafka:
    """Makes certificates and starts the broker."""
    ca, other = trustme.CA(), trustme.CA()
    files = folder / "certificates"
    files.mkdir()
    for name, authority in (("ca", ca), ("other-ca", other)):
        authority.cert_pem.write_to_path(str(files / f"{name}.pem"))
    broker = KafkaBroker(
        folder / "broker", listeners=_listeners(ca), users=_users(), properties={"num.partitions": "4"}
    )
    broker.start()
    client, stranger = _client(files, "client", ca), _client(files, "other-client", other)
    return SecureKafka(broker, files / "ca.pem", files / "other-ca.pem", client, stranger)


def _users() -> list[ScramUser]:
    return [ScramUser(USER, PASSWORD, "SCRAM-SHA-256"), ScramUser(USER, PASSWORD, "SCRAM-SHA-512")]


def _listeners(ca: trustme.CA) -> list[Listener]:
    tls = _key_store(ca, "localhost", "127.0.0.1")
    other = _key_store(ca, "kafka.example")
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": ca.cert_pem.bytes().decode()}
    return [
        Listener("TLS", "SSL", properties=tls),
        Listener("OTHERHOST", "SSL", properties=other),
        Listener("MUTUAL", "SSL", properties={**tls, **trust, "ssl.client.auth": "required"}),
        Listener("PLAIN", "SASL_SSL", properties={**tls, **_sasl("PLAIN", "plain.PlainLoginModule", _plain_user())}),
        Listener("SCRAM256", "SASL_SSL", properties={**tls, **_sasl("SCRAM-SHA-256", "scram.ScramLoginModule")}),
        Listener("SCRAM512", "SASL_PLAINTEXT", properties=_sasl("SCRAM-SHA-512", "scram.ScramLoginModule")),
        Listener("OAUTH", "SASL_SSL", properties={**tls, **_oauth()}),
    ]


def _key_store(ca: trustme.CA, *hosts: str) -> dict[str, str]:
    """The PEM key store of a certificate for these hosts; Kafka wants the key as PKCS #8."""
    made = ca.issue_cert(*hosts)
    chain = "".join(part.bytes().decode() for part in made.cert_chain_pems)
    key = _pkcs8(made.private_key_pem.bytes(), pem.NoEncryption())
    return {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": chain, "ssl.keystore.key": key.decode()}


def _sasl(mechanism: str, module: str, more: str = "") -> dict[str, str]:
    config = f"{_MODULES}.{module} required{more};"
    return {"sasl.enabled.mechanisms": mechanism, f"{mechanism.lower()}.sasl.jaas.config": config}


def _plain_user() -> str:
    return f' user_{USER}="{PASSWORD}"'


def _oauth() -> dict[str, str]:
    settings = _sasl("OAUTHBEARER", "oauthbearer.OAuthBearerLoginModule", f' unsecuredLoginStringClaim_sub="{USER}"')
    handler = f"{_MODULES}.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
    return {**settings, "oauthbearer.sasl.server.callback.handler.class": handler}


def _client(folder: Path, name: str, ca: trustme.CA) -> ClientCertificate:
    made = ca.issue_cert(f"{name}@example.com", common_name=name)
    cert, key, encrypted = (folder / f"{name}{end}.pem" for end in ("", "-key", "-encrypted-key"))
    cert.write_bytes(b"".join(part.bytes() for part in made.cert_chain_pems))
    key.write_bytes(_pkcs8(made.private_key_pem.bytes(), pem.NoEncryption()))
    locked = pem.BestAvailableEncryption(KEY_PASSWORD.encode())
    encrypted.write_bytes(_pkcs8(made.private_key_pem.bytes(), locked))
    return ClientCertificate(cert, key, encrypted)


def _pkcs8(key: bytes, encryption: pem.KeySerializationEncryption) -> bytes:
    loaded = pem.load_pem_private_key(key, None)
    return loaded.private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, encryption)
