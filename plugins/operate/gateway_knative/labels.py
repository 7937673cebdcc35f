"""Label selectors (Kubernetes API, `LabelSelector`): `matchLabels`, and `matchExpressions` with In, NotIn, Exists and
DoesNotExist. All requirements must hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from gateway_core.contract.faults import near

from .part import Part

Matches = Callable[[Mapping[str, str]], bool]
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def labels_of(manifest: Part) -> dict[str, str]:
    """The labels of an object."""
    metadata = manifest.part("metadata")
    labels = metadata.part("labels") if metadata else None
    if labels is None:
        return {}
    return {key: value for key in labels.node.value if (value := labels.text(key)) is not None}


def selector(part: Part) -> Matches | None:
    """What a selector asks for; None if it has a fault. One without requirements is a fault, since Kubernetes reads it
    as everything or as nothing, depending on how it is written."""
    before = len(part.notes.faults)
    found = list(_equal(labels)) if (labels := part.part("matchLabels")) is not None else []
    found += [matches for item in part.parts("matchExpressions") if (matches := _expression(item)) is not None]
    if len(part.notes.faults) > before:
        return None
    if not found:
        part.fault("matchLabels", "the selector asks for no label", "add `matchLabels`, or name the broker with `ref`")
        return None
    return lambda labels: all(matches(labels) for matches in found)


def _equal(labels: Part) -> Iterator[Matches]:
    for key in labels.node.value:
        if not labels.has(key):
            labels.fault(key, "the label has no value", "add one, or write `matchExpressions` with `Exists`")
        elif (value := labels.text(key)) is not None:
            yield _one_of(key, frozenset([value]))


def _expression(part: Part) -> Matches | None:
    part.only(("key", "operator", "values"))
    key, operator, values = part.text("key"), part.text("operator"), part.texts("values")
    for name, value in (("key", key), ("operator", operator)):
        if value is None and not part.has(name):
            part.fault(name, f"the key `{name}` is missing", f"add `{name}`")
    if key is None or operator is None:
        return None
    if operator not in _OPERATORS:
        remedy = near(operator, _OPERATORS) or f"operators: {', '.join(f'`{o}`' for o in _OPERATORS)}"
        part.fault("operator", f"unknown operator `{operator}`", remedy)
        return None
    if (operator in ("In", "NotIn")) != bool(values):
        text = "needs `values`" if not values else "takes no `values`"
        part.fault("values", f"`{operator}` {text}", "add some" if not values else "remove them")
        return None
    if operator == "Exists":
        return lambda labels: key in labels
    if operator == "DoesNotExist":
        return lambda labels: key not in labels
    one_of = _one_of(key, frozenset(values))
    return one_of if operator == "In" else lambda labels: not one_of(labels)


def _one_of(key: str, values: frozenset[str]) -> Matches:
    return lambda labels: key in labels and labels[key] in values
