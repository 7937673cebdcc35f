"""Turns the errors of pydantic into plain words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from .annotations import models_at
from .config_model import NAME_RULE
from .config_node import Place
from .faults import near
from .options import HIDDEN, described

_EXPECTED = {
    kind: words
    for words, kinds in {
        "a whole number": "int_type int_parsing int_from_float",
        "a smaller whole number": "int_parsing_size",
        "a number": "float_type float_parsing",
        "a finite number": "finite_number",
        "true or false": "bool_type bool_parsing",
        "text": "string_type bytes_type",
        "a path": "path_type",
        "a list": "list_type tuple_type set_type",
        "a mapping": "dict_type mapping_type model_type model_attributes_type",
        "nothing": "none_required",
    }.items()
    for kind in kinds.split()
}
_BOUNDS = {"greater_than": "gt", "greater_than_equal": "ge", "less_than": "lt", "less_than_equal": "le"}
_BOUND_WORDS = {"gt": "above", "ge": "of at least", "lt": "below", "le": "of at most"}
_SIZES = {"too_short": "at least {min_length}", "too_long": "at most {max_length}"}
_SIZES |= {"string_too_short": _SIZES["too_short"], "string_too_long": _SIZES["too_long"]}


@dataclass
class Finding:
    """One fault: `path` starts at the validated value; `expected` is allowed there, or `message` says what is wrong."""

    path: Place
    message: str
    remedy: str = ""
    expected: str = ""
    value: Any = None


def explain(
    error: ValidationError, data: Any, model: Any, is_secret: Callable[[Place], bool] = lambda _: False
) -> Iterator[Finding]:
    """The findings of a failed validation of `data` against `model`; `is_secret` says whether the value at a path is
    hidden."""
    findings = [_finding(details, data, model) for details in error.errors(include_url=False)]
    paths = {f.path for f in findings}
    # of a union's arms, the one that got deeper into the value is the one that was meant
    outer = {p for p in paths if any(len(q) > len(p) and q[: len(p)] == p for q in paths)}
    by_path: dict[Place, list[Finding]] = {}
    for finding in findings:
        if not (finding.path in outer and finding.expected):
            by_path.setdefault(finding.path, []).append(finding)
    for path, group in by_path.items():
        expected = list(dict.fromkeys(f.expected for f in group if f.expected))
        if expected:
            shown = HIDDEN if is_secret(path) else show(group[0].value)
            remedy = next((f.remedy for f in group if f.remedy), "")
            yield Finding(path, f"expected {' or '.join(expected)}, found {shown}", remedy)
        for finding in group:
            if not finding.expected:
                yield finding


def show(value: Any) -> str:
    """A value in a message."""
    if value is None or isinstance(value, bool):
        return "nothing" if value is None else str(value).lower()
    if isinstance(value, str):
        return f"the text '{value[:60]}…'" if len(value) > 60 else f"the text '{value}'"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return str(value)[:60]


def _finding(details: ErrorDetails, data: Any, model: Any) -> Finding:
    kind, value, context = details["type"], details["input"], details.get("ctx", {})
    path = _data_path(details["loc"], data, kind)
    last = str(path[-1]) if path else ""
    if details["loc"] and details["loc"][-1] == "[key]":
        if kind == "value_error":  # a check of the key itself: "what is wrong; the remedy"
            message, _, remedy = str(context["error"]).partition("; ")
            return Finding(path, message, remedy)
        return Finding(path, f"`{last}` can't be a name", NAME_RULE)
    if kind == "missing":
        about = _about(model, path)
        return Finding(path, f"the key `{last}` is missing", f"add `{last}`" + (f": {about}" if about else ""))
    if kind == "extra_forbidden":
        return Finding(path, f"unknown key `{last}`", _known(model, path))
    if kind in _BOUNDS:
        bound = _BOUNDS[kind]
        return Finding(path, "", "", f"a number {_BOUND_WORDS[bound]} {context[bound]:g}", value)
    if kind in _SIZES:
        things = "characters" if kind.startswith("string") else "items"
        size = _SIZES[kind].format(**context)
        return Finding(path, f"expected {size} {things[:-1] if size.endswith(' 1') else things}")
    if kind in ("literal_error", "enum"):
        return _choice(path, value, context["expected"])
    if kind == "string_pattern_mismatch":
        return Finding(path, "", "", f"text that matches {context['pattern']}", value)
    if kind in _EXPECTED:
        return Finding(path, "", _shape(kind, value), _EXPECTED[kind], value)
    error = context.get("error")
    message, remedy = str(error) if isinstance(error, Exception) else details["msg"], getattr(error, "remedy", "")
    return Finding(path, message.removesuffix(f" (remedy: {remedy})"), remedy)


def _shape(kind: str, value: Any) -> str:
    """The remedy for a value that YAML reads differently than its author meant."""
    if kind == "string_type" and isinstance(value, bool | int | float):
        return "put it in quotes"
    return "begin each entry with `- `" if kind == "list_type" and value is not None else ""


def _choice(path: Place, value: Any, expected: str) -> Finding:
    words = re.findall(r"'((?:[^'\\]|\\.)*)'", expected)
    if not words:
        return Finding(path, "", "", expected, value)
    written = [f"`{w}`" for w in words]
    text = written[0] if len(written) == 1 else f"{', '.join(written[:-1])} or {written[-1]}"
    return Finding(path, "", near(str(value), words), text, value)


def _data_path(loc: tuple[str | int, ...], data: Any, kind: str) -> Place:
    """The place in the data: pydantic's location without its own steps (a union's arms, validators)."""
    path: list[str | int] = []
    for i, step in enumerate(loc):
        if _has(data, step):
            data = data[step]
        elif not (kind == "missing" and i == len(loc) - 1):
            continue
        path.append(step)
    return tuple(path)


def _has(data: Any, step: str | int) -> bool:
    if isinstance(data, dict):
        return step in data
    return isinstance(data, list) and isinstance(step, int) and step < len(data)


def _about(model: Any, path: Place) -> str:
    for owner in models_at(model, path[:-1]):
        for name, info in described(owner).items():
            if path[-1] in (name, info.alias):
                return (info.description or "").split(".")[0].replace("\n", " ")
    return ""


def _known(model: Any, path: Place) -> str:
    names = [info.alias or n for owner in models_at(model, path[:-1]) for n, info in owner.model_fields.items()]
    keys = f"keys here: {', '.join(f'`{n}`' for n in names)}" if names else "it takes no keys"
    return near(str(path[-1]), names) or keys
