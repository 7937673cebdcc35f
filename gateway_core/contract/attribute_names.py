"""Checks the names of event attributes that a config mentions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator

_NAME = re.compile("[a-z0-9]+|[A-Za-z][A-Za-z0-9]*")  # CloudEvents 1.0 section 3.1; 0.1 has names such as eventType
_OLDEST = frozenset(
    {"cloudEventsVersion", "contentType", "eventID", "eventTime", "eventType", "eventTypeVersion", "schemaURL"}
)


def attribute_name(name: str) -> str:
    """Returns the name if an event can have an attribute with it. Raises `ValueError` ("what is wrong; the remedy")."""
    if name == "data":
        raise ValueError("`data` is no attribute of an event; name the attribute")
    if _NAME.fullmatch(name):
        return name
    plain = re.sub("[-_. ]", "", name).lower()
    remedy = f"did you mean `{plain}`?" if plain != "data" and _NAME.fullmatch(plain) else "name the attribute"
    raise ValueError(f"no event can have an attribute `{name}`: names are made of a-z and 0-9; {remedy}")


AttributeName = Annotated[str, AfterValidator(attribute_name)]
"""An attribute's name as a key or value of a config model."""


def old_names(names: Iterable[str]) -> Iterable[tuple[str, str, str]]:
    """A warning for each name that only events of CloudEvents 0.1 can have: the name, the message, the remedy."""
    for name in names:
        if name != name.lower():
            remedy = "" if name in _OLDEST else f"did you mean `{name.lower()}`?"
            yield name, f"only events of CloudEvents 0.1 can have an attribute `{name}`", remedy
