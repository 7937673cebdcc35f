"""Types of options: lists that may also be written as text, and servers by `HOST:PORT`."""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field

T = TypeVar("T")

_HOST_AND_PORT = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^:\[\]/\s,@]+):(\d{1,5})")


def comma_separated(value: Any) -> Any:
    """The parts of a text with commas between them; any other value as it is."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _host_and_port(text: str) -> str:
    """Returns the address. Raises `ValueError` unless it is `HOST:PORT`."""
    found = _HOST_AND_PORT.fullmatch(text)
    if found is None or not 0 < int(found[2]) < 65536:
        raise ValueError("must be HOST:PORT, with an IPv6 host in brackets")
    return text


Listed = Annotated[
    list[T], BeforeValidator(comma_separated, json_schema_input_type=list[str] | str), Field(min_length=1)
]
"""One or more values, as a list or as text with commas between them."""
Address = Annotated[str, AfterValidator(_host_and_port)]
"""A server, `HOST:PORT`."""
