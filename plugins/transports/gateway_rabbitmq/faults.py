"""What went wrong between us and a server."""

from __future__ import annotations

import re

from gateway_core.contract.one_line import one_line

ACCESS_REFUSED, NOT_FOUND, RESOURCE_LOCKED, PRECONDITION_FAILED, NOT_ALLOWED = 403, 404, 405, 406, 530
_FINAL = frozenset({ACCESS_REFUSED, PRECONDITION_FAILED, NOT_ALLOWED, 540})


class RabbitFault(Exception):
    """A fault of the server or of the connection to it. `code` is the server's reply code, None if it gave none.
    `rejected` is True if trying again won't help unless someone changes the server or the config."""

    def __init__(self, text: str, code: int | None = None, rejected: bool = False) -> None:
        super().__init__(text)
        self.code = code
        self.rejected = rejected


def of_login(code: int | None, text: str) -> RabbitFault:
    """The fault for a connection that the server closed while it was opened."""
    said = one_line(text)
    limited = "limit" in said  # of connections: it passes
    if code == ACCESS_REFUSED:
        return RabbitFault(f"the server refuses the credentials: {said}", code, True)
    if code == NOT_ALLOWED:
        return RabbitFault(f"the server refuses the virtual host: {said}", code, not limited)
    return RabbitFault(said, code)


def of_close(code: int | None, text: str) -> RabbitFault:
    """The fault for a channel or connection that the server closed."""
    said = one_line(text)
    if code == PRECONDITION_FAILED and "acknowledgement" in said and "timed out" in said:
        return RabbitFault(f"{said}; the server delivers the messages again (raise its `consumer_timeout`)", code)
    return RabbitFault(said, code, code in _FINAL)


_TOO_LARGE = re.compile(r"message size \d+ (?:is )?larger than (?:configured )?max size (\d+)")


def size_limit(fault: RabbitFault) -> int | None:
    """The server's limit for a message's body in bytes, if the fault is that a message was larger."""
    found = _TOO_LARGE.search(str(fault)) if fault.code == PRECONDITION_FAILED else None
    return int(found[1]) if found else None


_TOPIC = re.compile(r"access to topic '(.*)' in exchange ")


def forbidden_topic(fault: RabbitFault) -> str | None:
    """The routing key that the user must not use, if that is the fault."""
    found = _TOPIC.search(str(fault)) if fault.code == ACCESS_REFUSED else None
    return found[1] if found else None


def of_network(error: BaseException) -> RabbitFault:
    """The fault for a connection that could not be made, or broke."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return RabbitFault(one_line(text))
