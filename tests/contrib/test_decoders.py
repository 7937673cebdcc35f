"""Structs are decoded by decoders that modules make while they are imported.

msgspec (seen with 0.22.0) prepares a struct when it is first needed, and takes it for ready as soon as it has begun: a
second thread that decodes the same struct meanwhile ends the process with a segmentation fault.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from .test_import_cycles import modules

PLAIN = {"Any", "bool", "bytes", "date", "datetime", "dict", "float", "int", "list", "msgspec", "Raw", "str", "tuple"}
"""Types that need no preparation."""
IN_ONE_THREAD = {("gateway_inspect.service", "Choice"), ("gateway_core.contract.record", "cls")}
"""The event loop's thread alone converts to the first; the second prepares under a lock."""


def unprepared(name: str, text: str) -> Iterator[str]:
    """Places where the first use of a struct would prepare it."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        if called == "msgspec.convert":
            kind = node.args[1]
        elif called in ("msgspec.json.decode", "msgspec.msgpack.decode"):
            kinds = [k.value for k in node.keywords if k.arg == "type"]
            if not kinds:
                continue
            (kind,) = kinds
        else:
            continue
        names = {n.id for n in ast.walk(kind) if isinstance(n, ast.Name)} - PLAIN
        if names and not any((name, n) in IN_ONE_THREAD for n in names):
            yield f"{name}:{node.lineno}: {ast.unparse(node)}"


@pytest.mark.slow
def test_structs_are_prepared_when_their_module_is_imported() -> None:
    texts = {name: file.read_text(encoding="utf-8") for name, file in modules().items()}
    found = [place for name, text in texts.items() if "import msgspec" in text for place in unprepared(name, text)]
    assert not found, "make a `msgspec.json.Decoder` at the top of the module instead"


@pytest.mark.parametrize(
    "text",
    ["msgspec.json.decode(b, type=Meta)", "msgspec.convert(x, list[Meta])", "msgspec.json.decode(b, type=KINDS[w])"],
)
def test_a_struct_that_is_not_prepared_is_found(text: str) -> None:
    assert list(unprepared("m", text))


def test_plain_types_need_no_decoder() -> None:
    assert not list(unprepared("m", "msgspec.json.decode(b, type=list[int]); msgspec.json.decode(b)"))
