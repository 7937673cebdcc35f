"""Which events a tap shows, and its filter."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from pydantic import ValidationError

from gateway_core.contract.clock import SystemClock
from gateway_core.contract.component import BuildContext, FilterRef
from gateway_core.contract.components import Components
from gateway_core.contract.errors import TidegateError
from gateway_core.contract.filter_values import like
from gateway_core.contract.filters import all_of, attributes_filter
from gateway_core.contract.interfaces import Filter

MOST_HELD = 1000
"""Maximum number of unread lines; further lines are counted and dropped."""

_PAIR = re.compile(r"(\w+)=([^\s'\"]*)", re.ASCII)


class Choice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a tap shows: the events that `broker` (or a bridge) accepts, or the attempts of `trigger` (or a bridge) if
    it is set; only events that match all `filters`; with up to `data_bytes` of their data. It holds `held` lines that
    nobody has read yet."""

    broker: str | None = None
    trigger: str | None = None
    filters: tuple[str, ...] = ()
    data_bytes: int = 0
    held: int = MOST_HELD


class BadFilter(TidegateError):
    """A tap's filter can't be used; the text says why."""


def compile_all(texts: Sequence[str], registry: Components) -> Filter | None:
    """The filter for all these texts, None if there are none. Raises `BadFilter`."""
    return all_of([compile_one(text, registry) for text in texts]) if texts else None


def compile_one(text: str, registry: Components) -> Filter:
    """`NAME=VALUE` compares an attribute's text, as a trigger's `filter` does: an empty value requires only that the
    attribute exists, and there are no wildcards. Anything else is a CloudEvents SQL expression. Raises `BadFilter`."""
    pair = _PAIR.fullmatch(text)
    if pair is None:
        return _expression(text, registry)
    name, value = pair.groups()
    if "*" in value:
        raise BadFilter(f"the filter {text!r} can't be used: `*` is no wildcard; write {like(name, value)}")
    return attributes_filter({name: value})


def _expression(text: str, registry: Components) -> Filter:
    offer = registry.find("filter", "cesql")
    if offer is None:
        raise BadFilter(f"{text!r} is not NAME=VALUE, and no plugin offers the filter cesql")
    try:
        options = offer.component.model.model_validate(text)
        ref = FilterRef("cesql", text, options)
        built: Filter = registry.build(ref, BuildContext("filter", Path(), SystemClock(), registry, offline=True))
    except ValidationError as e:
        raise BadFilter(f"the filter {text!r} can't be used: {e.errors()[0]['msg']}") from e
    except TidegateError as e:
        raise BadFilter(f"the filter {text!r} can't be used: {e}") from e
    return built


@dataclass(frozen=True, slots=True)
class TapTarget:
    """Something that a tap can be attached to: a broker, a bridge or a trigger."""

    kind: str
    name: str

    def shown_by(self, choice: Choice) -> bool:
        """Whether a tap of this choice needs it."""
        if choice.trigger is not None:
            return self.kind in ("trigger", "bridge") and self.name == choice.trigger
        return self.kind in ("broker", "bridge") and choice.broker in (None, self.name)
