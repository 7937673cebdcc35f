"""Translates librdkafka's errors."""

from __future__ import annotations

import re
from typing import Any

from confluent_kafka import KafkaError
from gateway_kafka.client import KafkaFault

_CREDENTIALS = {
    KafkaError._AUTHENTICATION,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.UNSUPPORTED_SASL_MECHANISM,
    KafkaError.ILLEGAL_SASL_STATE,
}
_NOT_ALLOWED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "TopicAuthorization",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "GroupAuthorization",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "ClusterAuthorization",
}
_NEVER = {
    *_NOT_ALLOWED,
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.INVALID_RECORD,
    KafkaError.INVALID_MSG,
    KafkaError.INVALID_TIMESTAMP,
    KafkaError.INVALID_REQUIRED_ACKS,
    KafkaError.INVALID_GROUP_ID,
    KafkaError.INVALID_SESSION_TIMEOUT,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.POLICY_VIOLATION,
    KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    KafkaError.UNSUPPORTED_VERSION,
    KafkaError._INVALID_ARG,
}
_REFUSED = re.compile(
    r"certificate|handshake failure|alert|verify|wrong version|unknown ca|unsupported protocol", re.IGNORECASE
)
_NOISE = (
    (re.compile(r"\s*\(after \d+ms in state [^)]*\)"), ""),
    (re.compile(r"\s*\([^()]*identical error\(s\) suppressed\)"), ""),
    (
        re.compile(r"verify that ssl\.ca\.location is correctly configured or root CA certificates are installed[^:]*"),
        "see `tls.ca_file`",
    ),
    (re.compile(r"^(?:sasl_)?(?:plaintext|ssl)://([^/]+)/(?:bootstrap|\d+): "), r"\1: "),
    (re.compile(r"\s+"), " "),
)


def text_of(error: Any) -> str:
    """The error's text in one line, in terms of our options."""
    text = str(error.str())
    for pattern, put in _NOISE:
        text = pattern.sub(put, text)
    return text.strip(" :")


def fault_of(error: Any, about: str = "") -> KafkaFault:
    """The `KafkaError` as a `KafkaFault` with a readable message; `about` says which operation failed."""
    code = error.code()
    what = f"not authorized ({_NOT_ALLOWED[code]})" if code in _NOT_ALLOWED else text_of(error)
    text = f"{about}: {what}" if about else what
    if refuses_us(error):
        return KafkaFault(text, retry=False, credentials=True)
    return KafkaFault(text, retry=code not in _NEVER)


def refuses_us(error: Any) -> bool:
    """Whether the cluster rejects our identity, or we reject its."""
    code = error.code()
    return code in _CREDENTIALS or (
        code in (KafkaError._SSL, KafkaError._TRANSPORT)
        and "ssl" in error.str().lower()
        and bool(_REFUSED.search(error.str()))
    )
