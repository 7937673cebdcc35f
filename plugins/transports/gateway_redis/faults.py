"""Errors of Redis in words, and what they mean for an attempt."""

from __future__ import annotations

from redis import exceptions as redis

from gateway_core.contract.one_line import one_line
from gateway_core.contract.outcome import Outcome, short
from gateway_core.contract.shortage import is_shortage

PASSING = (
    redis.ReadOnlyError,
    redis.OutOfMemoryError,
    redis.NoPermissionError,
    redis.ClusterDownError,
    redis.AskError,
    redis.TryAgainError,
    redis.MasterDownError,
)
"""Answers of the server that say nothing about the event."""
_PASSING_CODES = ("MISCONF", "NOREPLICAS", "BUSY", "UNBLOCKED", "FAILOVER", "ERR max number of clients")

_WORDS: list[tuple[type[Exception], str]] = [
    (redis.BusyLoadingError, "the server is still loading its data"),
    (redis.ReadOnlyError, "the server is a replica, which can't be written to"),
    (redis.OutOfMemoryError, "the server's memory is full (maxmemory)"),
    (redis.MovedError, "the server is a node of a cluster and does not have this stream: set `cluster: true`"),
    (redis.MasterDownError, "the replica has no connection to its primary"),
    (redis.ClusterDownError, "the cluster is down"),
    (redis.TimeoutError, "no answer in time"),
]


def is_group_lost(error: BaseException) -> bool:
    """Whether the group, or its stream, does not exist."""
    return isinstance(error, redis.ResponseError) and str(error).startswith(("NOGROUP", "UNBLOCKED", "-NOGROUP"))


def is_no_stream(error: BaseException) -> bool:
    """Whether the key does not exist, or is not a stream."""
    return isinstance(error, redis.ResponseError) and str(error).startswith(("WRONGTYPE", "no such key"))


def is_denied(error: BaseException) -> bool:
    """Whether the server rejects our credentials."""
    return isinstance(error, redis.AuthenticationError)


def words(error: BaseException) -> str:
    """The error in one line."""
    said = one_line(error) or type(error).__name__
    if isinstance(error, redis.AuthenticationError):
        if "required" in said.lower():
            return "the server wants a password: set `password`, and `username` if it has users"
        return f"the server rejects the user name or password ({said})"
    if isinstance(error, redis.NoPermissionError):
        return f"the user has no permission: {said}"
    for kind, text in _WORDS:
        if isinstance(error, kind):
            return text
    return said


def outcome_of(error: BaseException) -> Outcome:
    """The outcome of an attempt that ended with this error."""
    if is_shortage(error):
        return short(error)
    answered = isinstance(error, redis.ResponseError | redis.DataError)  # else the connection failed, or spoke nonsense
    retry = not answered or isinstance(error, PASSING) or str(error).startswith(_PASSING_CODES)
    return Outcome(False, retry=retry, reason=words(error))
