"""Names of topics, subjects, queues and streams, built from an event's attributes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, text_of
from gateway_core.contract.normal_form import normal_attributes

_PART = re.compile(r"\{([^{}]*)\}")
_NAME = re.compile("[a-z0-9]+")
_KEPT = 4096  # names that are remembered
_LONGEST = 1024  # characters of one's values: senders choose them


@dataclass(frozen=True)
class NameRules:
    """What a transport's names may be.

    `what`      the transport's word for it: "topic".
    `literal`   a pattern for the fixed text of a template, all of it.
    `forbidden` a pattern for one character that the value of an attribute can't bring into the name: it becomes `_`.
    `most`      the most bytes of a name in UTF-8.
    `rule`      the rules in words: "a topic name may have letters, digits, ... and `{attribute}`".
    `invalid`   names that are not allowed, although their characters are.
    """

    what: str
    literal: re.Pattern[str]
    forbidden: re.Pattern[str]
    most: int
    rule: str
    invalid: frozenset[str] = frozenset()

    def checked(self, text: str) -> str:
        """Returns the template. Raises `ValueError` if it is invalid; for a validator of a config model."""
        names = _PART.findall(text)
        wrong = next((name for name in names if not _NAME.fullmatch(name)), None)
        if wrong is not None:
            raise ValueError(f"{{{wrong}}} is not an attribute name: use lower-case letters and digits")
        literal = _PART.sub("", text)
        fits = len(literal.encode()) <= self.most and text not in self.invalid
        if not text or not fits or not self.literal.fullmatch(literal):
            raise ValueError(self.rule)
        return text


def name_of(template: str, rules: NameRules) -> Callable[[Event], str]:
    """Returns a function that builds the name for an event. It raises `Refused` if the event lacks an attribute of the
    template, or the name would be invalid."""
    parts = _PART.split(template)
    if len(parts) == 1:
        return lambda event: template
    known: dict[tuple[str, ...], str] = {}
    wanted = parts[1::2]

    def name(event: Event) -> str:
        values = []
        attributes = normal_attributes(event.attributes)
        for attribute in wanted:
            value = attributes.get(attribute)
            if value is None:
                text = f"the {rules.what} needs the attribute {attribute}, which the event does not have"
                raise Refused(text, attribute=attribute)
            values.append(text_of(value))
        key = tuple(values)
        found = known.get(key)
        if found is None:
            found = _filled(parts, values, rules)
            if len(known) < _KEPT and sum(map(len, key)) <= _LONGEST:
                known[key] = found
        return found

    return name


def is_fixed(template: str) -> bool:
    """Whether all events get the same name."""
    return _PART.search(template) is None


def _filled(parts: list[str], values: list[str], rules: NameRules) -> str:
    pieces = list(parts)
    pieces[1::2] = [rules.forbidden.sub("_", value) for value in values]
    name = "".join(pieces)
    try:
        size = len(name.encode())
    except UnicodeEncodeError as e:
        raise Refused(f"the {rules.what} {name[:60]!r} is no Unicode text: it has half a surrogate pair") from e
    if not name or size > rules.most or name in rules.invalid:
        raise Refused(f"{name[:60]!r} is not a valid {rules.what} name")
    return name
