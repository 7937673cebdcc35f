"""A Kafka broker as the fault matrix needs a server: with users, and with the proxy's address as its own."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import admin
from gateway_java.kafka import KafkaBroker
from gateway_java.kafka_config import Listener, ScramUser
from gateway_java.ports import free_ports

from tests.faults.proxy import Proxy

_LISTENER = "USERS"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
_LIMIT_S = 60
_admin: Any = admin  # its types say that it exports less than it does


class KafkaServer:
    """The listener at `port` asks for no user and is for the tests. Clients of Kafka connect to the address that a
    broker advertises: that of the other listener, with SCRAM, is the proxy's."""

    def __init__(self, folder: Path, *, users: Mapping[str, str], settings: str = "") -> None:
        self.port, behind, before = free_ports(3)
        self.proxy = Proxy(behind, before)
        self._users = dict(users)
        scram = {"sasl.enabled.mechanisms": "SCRAM-SHA-512", "scram-sha-512.sasl.jaas.config": _SCRAM}
        properties = dict(line.split("=", 1) for line in settings.splitlines())
        advertised = f"PLAINTEXT://127.0.0.1:{self.port},{_LISTENER}://127.0.0.1:{before}"
        self.broker = KafkaBroker(
            folder,
            port=self.port,
            listeners=[Listener(_LISTENER, "SASL_PLAINTEXT", behind, scram)],
            users=[ScramUser(name, password) for name, password in users.items()],
            properties={"advertised.listeners": advertised, **properties},
        )

    def start(self) -> None:
        """Starts it, with its data."""
        self.broker.start(120)

    def kill(self) -> None:
        """kill -9."""
        self.broker.kill()

    def saved(self) -> bool:
        """A broker that is killed has written its files: it answers after the write."""
        return False

    def tail(self) -> str:
        """The end of its log."""
        return self.broker.tail() if self.broker.log.exists() else ""

    def set_users(self, users: Mapping[str, str]) -> None:
        """From now on only these may log in. The broker lets connections of users who have gone live, so those through
        the proxy are reset."""
        info = _admin.ScramCredentialInfo(_admin.ScramMechanism.SCRAM_SHA_512, 4096)
        changes: list[Any] = [_admin.UserScramCredentialUpsertion(n, info, p.encode()) for n, p in users.items()]
        changes += [_admin.UserScramCredentialDeletion(n, info.mechanism) for n in self._users.keys() - users.keys()]
        client = _admin.AdminClient({"bootstrap.servers": self.broker.bootstrap})
        for answer in client.alter_user_scram_credentials(changes, request_timeout=_LIMIT_S).values():
            answer.result(_LIMIT_S)
        if gone := self._users.keys() - users.keys():
            while not gone.isdisjoint(client.describe_user_scram_credentials().result(_LIMIT_S)):
                time.sleep(0.02)  # the broker learns it from its controller
            self.proxy.reset()
        self._users = dict(users)
