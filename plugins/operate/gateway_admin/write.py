"""Nodes as YAML text again: what is read back is the same value, places for the environment included."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from gateway_core.contract.config_node import Node

_PLACE = re.compile(r"\$\{[^{}\n]*\}")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9._/-]*")
_ODD = re.compile("[\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]")


def dump(*documents: Node) -> str:
    """The documents' text, `---` in front of each."""
    return "".join("\n".join(["---", *_lines(document, ""), ""]) for document in documents)


def _lines(node: Node, indent: str) -> Iterator[str]:
    """A value on lines of its own."""
    if isinstance(node.value, dict) and node.value:
        for key, inner in node.value.items():
            yield from _item(f"{indent}{key if _WORD.fullmatch(key) else _quoted(key)}:", inner, indent)
    elif isinstance(node.value, list) and node.value:
        for inner in node.value:
            yield from _item(f"{indent}-", inner, indent)
    else:
        yield indent + _scalar(node)


def _item(head: str, node: Node, indent: str) -> Iterator[str]:
    if isinstance(node.value, dict | list) and node.value:
        yield head
        yield from _lines(node, f"{indent}  ")
    else:
        yield f"{head} {_scalar(node)}"


def _scalar(node: Node) -> str:
    value: Any = node.value
    if isinstance(value, str) and node.plain and _PLACE.fullmatch(value):
        return value  # quotes would make text of what the environment has
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return {"nan": ".nan", "inf": ".inf", "-inf": "-.inf"}[str(value)]
    return _quoted(value)


def _quoted(value: Any) -> str:
    """JSON is YAML, but for characters that YAML takes for line breaks or does not allow."""
    return _ODD.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))
