"""The topology and its drawings."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from gateway_inspect.graph.svg import svg
from gateway_inspect.graph.text import dot, mermaid
from gateway_inspect.graph.topology import Edge, Node, Topology, from_document, topology

from gateway_core.config.registry import Registry
from gateway_core.contract.configs import load
from gateway_core.runtime.offline import built_offline

CONFIG = """\
brokers:
  default: {ingress: [http: {listen: "127.0.0.1:8080"}]}
  audit: {ingress: [http: {listen: "127.0.0.1:8090", path: /in}], dead_letter: {file: {path: /d/dead.jsonl}}}
triggers:
  billing: {filter: {type: invoice.paid, source: ""}, subscriber: "http://u:s3cret@billing.example/events"}
  eu: {filters: [cesql: "type = 'order' AND source <> \\"a & b\\""], subscriber: "http://eu.example/"}
  chained: {subscriber: "http://127.0.0.1:8090/in", allow_cycle: true}
  archive: {broker: audit, subscriber: {file: {path: /d/archive.jsonl}}}
  lost: {broker: nowhere, subscriber: "http://127.0.0.1:1/"}
bridges:
  mirror:
    source: {http: {listen: "127.0.0.1:8070"}}
    sink: "http://eu.example/"
    dead_letter: {file: {path: /d/dead.jsonl}}
"""
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def drawn(tmp_path: Path) -> Topology:
    file = tmp_path / "tidegate.yaml"
    file.write_text(CONFIG)
    registry = Registry.installed()
    config = load([file], registry)
    return topology(config, built_offline(config, registry))


def ends(found: Topology, kind: str) -> set[tuple[str, str]]:
    """The edges of a kind, by the ids of brokers, triggers and bridges and the addresses of the rest."""
    names = {n.id: n.id if n.kind in ("broker", "trigger", "bridge") else n.detail[0] for n in found.nodes}
    return {(names[e.start], names[e.end]) for e in found.edges if e.kind == kind}


def test_everything_is_connected_as_configured(drawn: Topology) -> None:
    assert ends(drawn, "flow") == {
        ("127.0.0.1:8080", "broker:default"),
        ("127.0.0.1:8090", "broker:audit"),
        ("127.0.0.1:8070", "bridge:mirror"),
        ("broker:default", "trigger:billing"),
        ("broker:default", "trigger:eu"),
        ("broker:default", "trigger:chained"),
        ("broker:audit", "trigger:archive"),
        ("broker:nowhere", "trigger:lost"),
        ("trigger:billing", "http://billing.example/events"),
        ("trigger:eu", "http://eu.example/"),
        ("trigger:chained", "127.0.0.1:8090"),  # the other broker's ingress
        ("trigger:archive", "file:///d/archive.jsonl"),
        ("trigger:lost", "http://127.0.0.1:1/"),
        ("bridge:mirror", "http://eu.example/"),
    }
    assert ends(drawn, "reply") == {(f"trigger:{t}", "broker:default") for t in ("billing", "eu", "chained")}
    assert {("trigger:archive", "file:///d/dead.jsonl"), ("bridge:mirror", "file:///d/dead.jsonl")} < ends(
        drawn, "dead_letter"
    )
    assert len([n for n in drawn.nodes if n.detail == ("http://eu.example/",)]) == 1
    (missing,) = [n for n in drawn.nodes if n.missing]
    assert missing.title == "nowhere"
    (billing,) = [n for n in drawn.nodes if n.id == "trigger:billing"]
    assert billing.detail == ("type = invoice.paid", "source is there")


def test_no_drawing_shows_a_secret(drawn: Topology) -> None:
    assert not any("s3cret" in text for text in (mermaid(drawn), dot(drawn), svg(drawn), str(drawn.document())))


def test_it_survives_the_way_over_json(drawn: Topology) -> None:
    assert from_document(drawn.document()) == drawn


def test_the_svg_is_well_formed_and_nothing_lies_on_something_else(drawn: Topology) -> None:
    root = ElementTree.fromstring(svg(drawn))
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {"billing", "eu", "mirror", "nowhere", "type = invoice.paid"} <= set(texts)
    found = [rect for g in root.iter(f"{SVG}g") if (rect := g.find(f"{SVG}rect")) is not None]
    rects = [{k: float(rect.attrib[k]) for k in ("x", "y", "width", "height")} for rect in found]
    assert len(rects) == len(drawn.nodes)
    width, height = (float(root.get(k, "0")) for k in ("width", "height"))
    for i, a in enumerate(rects):
        assert min(a["x"], a["y"]) >= 0
        assert (a["x"] + a["width"] <= width, a["y"] + a["height"] <= height) == (True, True)
        for b in rects[:i]:
            apart = a["x"] + a["width"] <= b["x"] or b["x"] + b["width"] <= a["x"]
            assert apart or a["y"] + a["height"] <= b["y"] or b["y"] + b["height"] <= a["y"]


ODD = Topology(
    [
        Node(
            'trigger:<"&\\>',
            "trigger",
            'a"b',
            ('<script>alert("1 & 2")</script>', "\x00\x1b\u2028 \\", "é`|{}[]();#--"),
        ),
        Node("sink:1", "sink", "s", ("x" * 500,)),
    ],
    [Edge('trigger:<"&\\>', "sink:1")],
)


def test_what_could_be_taken_for_syntax_is_escaped() -> None:
    root = ElementTree.fromstring(svg(ODD))
    assert '<script>alert("1 & 2")</script>' in [text.text for text in root.iter(f"{SVG}text")]
    label = mermaid(ODD).splitlines()[1]
    assert re.fullmatch(r'  n0\{\{"[^"<>&\\`|{}()\[\]]*(<br/>[^"<>&\\`|{}()\[\]]*)*"\}\}', label)
    quoted = r'"(?:[^"\\]|\\.)*"'
    node, _, edge = dot(ODD).splitlines()[3:6]
    assert re.fullmatch(rf"  {quoted} \[shape=hexagon label={quoted}\]", node)
    assert re.fullmatch(rf"  {quoted} -> {quoted}", edge)


def test_nothing_at_all_is_drawn_too() -> None:
    ElementTree.fromstring(svg(Topology()))
    assert mermaid(Topology()) == "flowchart LR\n"
