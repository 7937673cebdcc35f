"""The headers of a record, also where confluent-kafka can't read them."""

from __future__ import annotations

from collections.abc import Sequence
from operator import methodcaller
from typing import Any

# it returns a list although an error is set: a caller in C notices that, one in Python may not
_read = methodcaller("headers")
_UNREADABLE = (("unreadable", b"none of the headers can be read: a name is not UTF-8"),)


def headers_of(message: Any) -> Sequence[tuple[str, bytes | None]]:
    """Where a header's name is not UTF-8, all of them are lost: a single one says so in their place. Such a record is
    no event, but must not hold up its partition."""
    try:
        return _read(message) or ()
    except (SystemError, UnicodeError):
        return _UNREADABLE
