"""Turns librdkafka's error reports into one fault for status and few log lines."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from gateway_kafka.client import KafkaFault
from gateway_kafka.client_config import KafkaConfig
from gateway_kafka.health import Health

from .faults import fault_of, refuses_us, text_of
from .options import tokens_of

_log = logging.getLogger("tidegate.kafka")
_LOOK_S = 0.5
_LOOK_LIMIT_S = 0.5
# reports of single failed connection attempts, which `Watch.error` receives as well
_REPEATED = {
    "FAIL",
    "ERROR",
    "SASL",
    "SSL",
    "REQTMOUT",
    "OAUTHBEARER",
    "CONFWARN",
    "SESSTMOUT",
    "MAXPOLL",
    "COMMITFAIL",
    "GETPID",
}


class Watch:
    """Receives the errors of one client, on the thread that polls it."""

    def __init__(self, config: KafkaConfig, health: Health) -> None:
        self.fatal = False
        """The client can no longer be used."""
        self.muted = False
        """Another client to the same cluster is in use and reports its health."""
        self.heard: KafkaFault | None = None
        """The last rejection, raised by `start`."""
        self._servers = ",".join(config.bootstrap)
        self._health = health
        self._tokens = tokens_of(config)
        self._reason = ""
        self._next_look = 0.0
        self._answered = False

    def client(self, kind: Callable[[dict[str, Any]], Any], options: dict[str, Any]) -> Any:
        """A new client with these options, whose errors are received from now on. Raises `KafkaFault`."""
        self.fatal = False
        if self._tokens is not None:
            self._tokens.token_now()  # otherwise librdkafka's constructor would wait ten seconds for one
        try:
            return kind(options | self._callbacks())
        except KafkaException as error:  # an option that librdkafka rejects, such as a certificate
            raise KafkaFault(str(fault_of(error.args[0])), retry=False, credentials=True) from error

    def _callbacks(self) -> dict[str, Any]:
        """The callbacks for librdkafka."""
        found: dict[str, Any] = {"error_cb": self.error, "logger": self, "log_level": 6}
        if _log.isEnabledFor(logging.DEBUG) and logging.getLogger("librdkafka").isEnabledFor(logging.DEBUG):
            found["log_level"] = 7
        if self._tokens is not None:
            found["oauth_cb"] = self._token
        return found

    def error(self, error: Any) -> None:
        """librdkafka's `error_cb`."""
        if error.fatal() or error.code() == KafkaError._FATAL:
            self.fatal = True
            _log.error("Kafka at %s: the client has failed and is replaced: %s", self._servers, text_of(error))
        elif refuses_us(error):
            self._refused(fault_of(error, f"Kafka at {self._servers}"))
        elif error.code() == KafkaError._ALL_BROKERS_DOWN:
            if self._health.fault is None and not self.muted:
                why = self._reason or "no broker can be reached"
                self._health.bad(KafkaFault(f"Kafka at {self._servers}: {why}"))
        elif error.code() in (KafkaError._TRANSPORT, KafkaError._RESOLVE, KafkaError._TIMED_OUT):
            self._reason = text_of(error)
            _log.debug("Kafka: %s", self._reason)
        else:
            _log.warning("Kafka at %s: %s", self._servers, text_of(error))

    def log(self, level: int, form: str, facility: str, client: str, text: str) -> None:
        """librdkafka's log callback."""
        _log.log(
            logging.DEBUG if facility in _REPEATED or level < logging.WARNING else level, form, facility, client, text
        )

    def look(self, client: Any) -> None:
        """While there is a fault: checks whether the cluster still fails. Takes up to half a second. Call it when a
        poll has returned nothing: errors that librdkafka still has to report would be older than the cluster's
        response."""
        if self.muted:
            return
        if self._answered:
            self.good()
            return
        now = time.monotonic()
        if self._health.fault is None or now < self._next_look:
            return
        try:
            client.list_topics(timeout=_LOOK_LIMIT_S)
            self._answered = True
        except KafkaException as error:
            _log.debug("Kafka: %s", text_of(error.args[0]))
        self._next_look = time.monotonic() + _LOOK_S

    def good(self) -> None:
        """The cluster has responded."""
        self.heard = None
        self._answered = False
        self._health.good()

    def _refused(self, fault: KafkaFault) -> None:
        self.heard = fault
        self._health.bad(fault)

    def _token(self, _: str) -> tuple[str, float]:
        """librdkafka's `oauth_cb`."""
        assert self._tokens is not None
        try:
            token = self._tokens.token_now()
        except KafkaFault as fault:
            self._refused(fault) if fault.credentials else self._health.bad(fault)
            raise
        return token.value, token.ends
