"""Translates aiokafka's errors, and reduces its logging to what an operator needs."""

from __future__ import annotations

import logging
import os
import ssl

from aiokafka import errors

from ..client import KafkaFault
from ..client_config import KafkaConfig
from .options import TokenError, connection_options
from .ways import ways

_CREDENTIALS = (
    errors.AuthenticationFailedError,
    errors.SaslAuthenticationFailed,
    errors.UnsupportedSaslMechanismError,
    errors.IllegalSaslStateError,
    errors.AuthenticationMethodNotSupported,
    ssl.SSLError,
)
_NOT_ALLOWED = (
    errors.TopicAuthorizationFailedError,
    errors.GroupAuthorizationFailedError,
    errors.ClusterAuthorizationFailedError,
    errors.TransactionalIdAuthorizationFailed,
)
_NEVER = (
    *_NOT_ALLOWED,
    errors.InvalidTopicError,
    errors.InvalidRequiredAcksError,
    errors.PolicyViolationError,
    errors.UnsupportedForMessageFormatError,
    errors.UnsupportedVersionError,
    errors.MessageSizeTooLargeError,
    errors.RecordListTooLargeError,
    errors.InvalidTimestampError,
    errors.CorruptRecordException,
    errors.InvalidGroupIdError,
    errors.InvalidSessionTimeoutError,
)


def quieten() -> None:
    """aiokafka logs every failed attempt of every connection. We log once that the cluster is down and once that it is
    back. With the log level `debug`, aiokafka's own messages appear too."""
    log = logging.getLogger("aiokafka")
    if not logging.getLogger("tidegate").isEnabledFor(logging.DEBUG):
        log.setLevel(logging.CRITICAL)


def fault_of(error: BaseException, about: str = "") -> KafkaFault:
    """The error as a `KafkaFault` with a readable message; `about` says which operation failed."""
    if isinstance(error, KafkaFault):
        return error
    if isinstance(error, TokenError) and isinstance(error.__cause__, KafkaFault):
        return error.__cause__
    text = f"{about}: {text_of(error)}" if about else text_of(error)
    if refuses_us(error):
        return KafkaFault(text, retry=False, credentials=True)
    return KafkaFault(text, retry=not isinstance(error, _NEVER))


def refuses_us(error: BaseException | None) -> bool:
    """Whether the cluster rejects our identity, or we reject its."""
    while error is not None:
        if isinstance(error, _CREDENTIALS) or (isinstance(error, KafkaFault) and error.credentials):
            return True
        error = error.__cause__
    return False


def text_of(error: BaseException) -> str:
    """The error in one line, without its class if the message is clear enough."""
    if (tls := _tls_error(error)) is not None:
        said = tls.verify_message if isinstance(tls, ssl.SSLCertVerificationError) else (tls.reason or str(tls))
        return f"TLS: {said.replace('_', ' ').lower() if said.isupper() else said}"
    if isinstance(error, _NOT_ALLOWED):
        return f"not authorized ({type(error).__name__.removesuffix('Error').removesuffix('Failed')})"
    if isinstance(error, errors.UnsupportedSaslMechanismError):
        return "the cluster does not offer this SASL mechanism here"
    if isinstance(error, _CREDENTIALS):
        said = next((str(part) for part in error.args if isinstance(part, str) and part), type(error).__name__)
        return f"the cluster refuses our credentials: {said}"
    if isinstance(error, errors.UnknownError):
        return "rejected for a reason that the client does not know (in a compacted topic: a record without a key)"
    if isinstance(error, errors.BrokerResponseError):
        return f"{type(error).__name__} ({error.errno})"
    if isinstance(error, TimeoutError) and not str(error):
        return "no answer in time"
    if isinstance(error, OSError) and (error.errno or 0) > 0:
        return os.strerror(error.errno or 0)
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _tls_error(error: BaseException | None) -> ssl.SSLError | None:
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__
    return error


async def check_token(config: KafkaConfig) -> None:
    """aiokafka mistakes a rejected OAUTHBEARER token for an accepted one and then waits forever. Raises
    `KafkaFault`."""
    if config.sasl is not None and config.sasl.mechanism == "OAUTHBEARER":
        await probe(config)


async def probe(config: KafkaConfig) -> None:
    """Connects to one of the bootstrap servers and disconnects. Raises `KafkaFault` with the reason if none can be
    reached: aiokafka only logs it."""
    last: BaseException | None = None
    options = connection_options(config)
    for host, port in ways().addresses(config.bootstrap):
        try:
            await ways().probe(config, host, port, options)
        except (OSError, errors.KafkaError, ValueError) as error:  # TimeoutError is an OSError
            last = error if last is None or refuses_us(error) else last
        else:
            return
    assert last is not None
    raise fault_of(last, f"Kafka at {','.join(config.bootstrap)}") from last
