"""Finds components that would use one durable name (`gateway_core.contract.durable`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..contract.config_extension import ConfigFinding
from ..contract.config_node import dotted
from ..contract.durable import DurableName, shared


def sharing(names: Iterable[DurableName]) -> Iterator[ConfigFinding]:
    """Components that would use one name against each other, and those that share one by accident."""
    for first, other in shared(names):
        at = dotted(first.place)
        if first.alone or other.alone:
            option = other.keeps.partition(":")[0] or "a name"
            remedy = f"give one of them a `{option}` of its own"
            yield ConfigFinding(f"uses {other}, which is that of {at} too", other.place, remedy)
        elif not (first.said and other.said) and first.owner != other.owner and _meet(first, other):
            option = other.keeps.partition(":")[0] or "a name"
            text = f"shares {other} with {at}: each gets only a part of the events"
            remedy = f"give one of them a `{option}` of its own, or both the same"
            yield ConfigFinding(text, other.place, remedy, warning=True)


def _meet(one: DurableName, other: DurableName) -> bool:
    """Whether both read the same."""
    a, b = one.facts.get("topics"), other.facts.get("topics")
    return a is None or b is None or bool({*a} & {*b})
