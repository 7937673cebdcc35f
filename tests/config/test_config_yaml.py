"""Reading YAML with positions."""

from __future__ import annotations

from typing import Any

import pytest

from gateway_core.contract import config_yaml as yaml
from gateway_core.contract.config_node import Node, locate
from gateway_core.contract.config_yaml import read, scalar


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None), ("~", None), ("null", None), ("true", True), ("False", False), ("yes", "yes"), ("on", "on"),
        ("12", 12), ("-3", -3), ("0o17", 15), ("0x1F", 31), ("017", 17), ("1_000", "1_000"), ("1:30", "1:30"),
        ("1.5", 1.5), ("1e3", 1000.0), (".5", 0.5), ("-.inf", float("-inf")), ("2001-12-14", "2001-12-14"),
        ("+", "+"), (".", "."), ("1.2.3", "1.2.3"), ("9" * 5000, float("inf")), ("٣", "٣"),
    ],
)  # fmt: skip
def test_plain_scalars_follow_the_core_schema(text: str, value: Any) -> None:
    assert scalar(text) == value
    assert type(scalar(text)) is type(value)


TEXT = b"""\
# comment
a:
  b: 1
  c:
    - x
    - d: {e: [1,
           2]}
"""


@pytest.fixture(params=["libyaml", "ruamel"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both parsers, by taking the first away."""
    if request.param == "ruamel":
        monkeypatch.setattr(yaml, "_CParser", None)
    return str(request.param)


@pytest.mark.usefixtures("parser")
def test_every_key_and_item_has_its_line() -> None:
    (root,) = read(TEXT, "a.yaml").documents
    places: dict[tuple[str | int, ...], int] = {
        ("a",): 2, ("a", "b"): 3, ("a", "c"): 4, ("a", "c", 0): 5, ("a", "c", 1, "d"): 6,
        ("a", "c", 1, "d", "e", 1): 7, ("a", "missing", "deeper"): 2, ("a", "b", "c"): 3, ("a", "c", 9): 4,
    }  # fmt: skip
    assert {path: locate(root, path) for path in places} == {p: ("a.yaml", n) for p, n in places.items()}


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(
    "text", [b"a: {b: http://host:80/x, c: 127.0.0.1:80}", b'a: {"b":1}', b"a: &x [1]\nb: *x", b"\xef\xbb\xbfa: 1"]
)
def test_yaml_1_2_is_read(text: bytes) -> None:
    reading = read(text, "a.yaml")
    assert reading.faults == []
    assert len(reading.documents) == 1


def test_both_parsers_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    text = TEXT + b"s: |\n  text\n  more\nt: 'quoted'\nu: !!str 5\n---\nk: [~, on, 0o7]\n"
    first = [_shape(n) for n in read(text, "a").documents]
    monkeypatch.setattr(yaml, "_CParser", None)
    assert [_shape(n) for n in read(text, "a").documents] == first


def _shape(node: Node) -> Any:
    value = node.value
    if isinstance(value, dict):
        return node.lines, {k: _shape(v) for k, v in value.items()}
    if isinstance(value, list):
        return node.line, [_shape(v) for v in value]
    return node.line, node.plain, value
