"""aiokafka's errors in our words, and its loggers brought down to what an operator needs."""

from __future__ import annotations

import logging
import ssl

from aiokafka import errors
from aiokafka.conn import collect_hosts, create_conn

from ..client import KafkaFault
from ..config import KafkaConfig
from .options import TokenError, connection_options

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
    """aiokafka reports each failed try of each connection; we say once that the cluster is away and once that it is
    back. Whoever sets the level `debug` hears it all."""
    log = logging.getLogger("aiokafka")
    if not logging.getLogger("tidegate").isEnabledFor(logging.DEBUG):
        log.setLevel(logging.CRITICAL)


def fault_of(error: BaseException, about: str = "") -> KafkaFault:
    """What a person should read of an error; `about` says what was asked."""
    if isinstance(error, KafkaFault):
        return error
    if isinstance(error, TokenError) and isinstance(error.__cause__, KafkaFault):
        return error.__cause__
    text = f"{about}: {text_of(error)}" if about else text_of(error)
    if refuses_us(error):
        return KafkaFault(text, retry=False, credentials=True)
    return KafkaFault(text, retry=not isinstance(error, _NEVER))


def refuses_us(error: BaseException | None) -> bool:
    """Whether the cluster does not accept who we are, or we don't accept who it is."""
    while error is not None:
        if isinstance(error, _CREDENTIALS) or (isinstance(error, KafkaFault) and error.credentials):
            return True
        error = error.__cause__
    return False


def text_of(error: BaseException) -> str:
    if isinstance(error, TimeoutError) and not str(error):
        return "no answer in time"
    if isinstance(error, _NOT_ALLOWED):
        return f"not authorized ({type(error).__name__.removesuffix('Error').removesuffix('Failed')})"
    text = str(error).splitlines()[0].strip() if str(error).strip() else ""
    if isinstance(error, errors.BrokerResponseError):
        return f"{type(error).__name__} ({error.errno})"
    return text or type(error).__name__


async def probe(config: KafkaConfig) -> None:
    """Connects to one of the bootstrap servers and leaves again. Raises `KafkaFault` that says why none could be
    reached: aiokafka itself only logs the reason."""
    last: BaseException | None = None
    try:
        options = connection_options(config)
    except KafkaFault as fault:
        raise fault from None
    for host, port, _ in collect_hosts(list(config.bootstrap)):
        try:
            connection = await create_conn(host, port, **options)
        except (TimeoutError, OSError, errors.KafkaError, ValueError) as error:
            last = error if last is None or refuses_us(error) else last
            continue
        await connection.close()
        return
    assert last is not None
    raise fault_of(last, f"Kafka at {','.join(config.bootstrap)}") from last
