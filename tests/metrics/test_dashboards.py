"""The dashboard and the alert rules use metrics that exist, by their kind and with labels that they have."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from gateway_admin.metric_table import METRICS, Metric
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
DASHBOARD: dict[str, Any] = json.loads((ROOT / "contrib/grafana/tidegate.json").read_text())
RULES = YAML(typ="safe").load((ROOT / "contrib/prometheus/alerts.yaml").read_text())["groups"][0]["rules"]
GUIDE = (ROOT / "docs/howto/monitoring.md").read_text()

TABLE = {metric.name: metric for metric in METRICS}
NAME = re.compile(r"\b(?:tidegate|process)_[a-z_]+")
FROM_OUTSIDE = {"le", "instance", "job"}


def of_dashboard() -> list[str]:
    panels = [t["expr"] for panel in DASHBOARD["panels"] for t in panel.get("targets", [])]
    return panels + [v["query"]["query"] for v in DASHBOARD["templating"]["list"] if v["type"] == "query"]


def of_guide() -> list[str]:
    return re.findall(r"```promql\n(.*?)```", GUIDE, re.DOTALL)


def metric_of(name: str) -> Metric:
    if name in TABLE:
        return TABLE[name]
    base = re.sub(r"_(bucket|sum|count)$", "", name)
    assert TABLE[base].type == "histogram", name
    return TABLE[base]


@pytest.mark.parametrize("expression", [*of_dashboard(), *(r["expr"] for r in RULES), *of_guide()])
def test_an_expression_uses_what_there_is(expression: str) -> None:
    names = NAME.findall(expression)
    assert names
    known = set(FROM_OUTSIDE)
    for name in names:
        metric = metric_of(name)
        known |= set(metric.labels)
        rated = re.search(rf"(rate|increase)\({name}\b", expression) is not None
        assert rated == (metric.type != "gauge"), f"{name} is a {metric.type}"
    used = set(re.findall(r"[{,]\s*([a-z]+)\s*(?:=|!=|=~|!~)\"", expression))
    for group in re.findall(r"\bby \(([^)]*)\)", expression):
        used |= {label.strip() for label in group.split(",")}
    assert used <= known, used - known
    assert expression.count("(") == expression.count(")")


def test_what_is_shown_of_labels_is_there() -> None:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", []):
            labels = {label for name in NAME.findall(target["expr"]) for label in metric_of(name).labels} | FROM_OUTSIDE
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= labels, panel["title"]
    for rule in RULES:
        labels = {label for name in NAME.findall(rule["expr"]) for label in metric_of(name).labels} | FROM_OUTSIDE
        shown = re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])
        assert set(shown) <= labels, rule["alert"]


def test_panels_have_places_of_their_own() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))


@pytest.mark.spec("BR-19")
def test_every_alert_says_what_to_do() -> None:
    names = [rule["alert"] for rule in RULES]
    assert len(names) == len(set(names))
    for rule in RULES:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"].endswith(".")
        assert rule["annotations"]["remedy"]
        assert f"`{rule['alert']}`" in GUIDE
