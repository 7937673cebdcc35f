"""Filters as people write them on a command line: `type=order.paid`, or a CloudEvents SQL expression."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from gateway_core.contract.clock import SystemClock
from gateway_core.contract.component import BuildContext, FilterRef
from gateway_core.contract.components import Components
from gateway_core.contract.errors import TidegateError
from gateway_core.contract.filter_values import like
from gateway_core.contract.filters import all_of, attributes_filter
from gateway_core.contract.interfaces import Filter

_PAIR = re.compile(r"(\w+)=([^\s'\"]*)", re.ASCII)


class BadFilter(TidegateError):
    """A filter can't be used; the text says why."""


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
