"""Metrics that components count themselves: a third party's, and those that are shipped."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from gateway_admin.metric_table import METRICS
from gateway_admin.metrics import render
from gateway_admin.own_metrics import declared
from gateway_testing import GatewayProcess
from gateway_workers.status import merge

from gateway_core.config.registry import Registry
from gateway_core.contract.component import OwnMetric
from gateway_core.contract.status import GatewayStatus
from tests import web
from tests.metrics.scrape import faults, parsed
from tests.planted import install

SENT = OwnMetric("tidegate_own_sent_total", "counter", "Sent.")
DEPTH = OwnMetric("tidegate_own_depth", "gauge", "Depth.", by="queue")

PLUGIN = """
from gateway_core.contract.component import Component, Config, OwnMetric, Transport
from gateway_core.contract.hookspecs import hookimpl
from gateway_core.contract.interfaces import DELIVERED

class Options(Config):
    "A test's."

class Counts:
    address = "counts:"

    def __init__(self, options, context):
        self.sent = 0
        self.raises = "dead_letter" in context.owner

    async def start(self, tasks): ...
    async def stop(self): ...

    def send(self, event, timeout_s, done):
        self.sent += 1
        done(DELIVERED)

    def metrics(self):
        if self.raises:
            raise ValueError("a bug")
        return {"tidegate_own_sent_total": self.sent, "tidegate_own_depth": {"a\\"b": 1, "c": 2}}

@hookimpl
def gateway_transports():
    metrics = [OwnMetric("tidegate_own_sent_total", "counter", "Sent."),
               OwnMetric("tidegate_own_depth", "gauge", "Depth.", by="queue")]
    return [Transport("counts", sink=Component("counts", "A test's.", Options, Counts, metrics=metrics))]
"""

CONFIG = """
brokers: {default: {ingress: [http: {listen: "127.0.0.1:0"}], dead_letter: counts}}
triggers: {t: {subscriber: counts}}
bridges: {across: {source: {http: {listen: "127.0.0.1:0", path: /b}}, sink: counts}}
"""


@pytest.mark.spec("TR-05")
@pytest.mark.usefixtures("processes")
def test_a_sinks_own_metrics_are_shown_with_their_owner(tmp_path: Path) -> None:
    with GatewayProcess(CONFIG, tmp_path, env=install(tmp_path, PLUGIN)) as gateway:
        event = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
        headers = {"content-type": "application/cloudevents+json"}
        for _ in range(3):
            assert web.post(gateway.ingress(), json=event, headers=headers, verify=False).status_code == 202

        def found() -> Any:
            return parsed(gateway.admin("/metrics").text)

        gateway.wait_until(lambda: found()(SENT.name, trigger="t", place="subscriber") == 3, 60, "the third event")
        assert found()(DEPTH.name, bridge="across", place="sink", queue='a"b') == 1
        text = gateway.admin("/metrics").text
        assert list(faults(text)) == []
        assert 'place="dead_letter"' not in text  # it raises, which hides nothing else


def status(measured: Mapping[str, Any]) -> GatewayStatus:
    return GatewayStatus.read({"version": "1", "measured": measured})


@pytest.mark.spec("TR-05")
def test_the_numbers_of_workers_are_added() -> None:
    one = status({"triggers": {"t": {"subscriber": {SENT.name: 2, DEPTH.name: {"a": 1}}}}})
    two = status({"triggers": {"t": {"subscriber": {SENT.name: 3, DEPTH.name: {"a": 1, "b": 5}}}}, "brokers": {}})
    text = render(merge(one, [two]), [SENT, DEPTH])
    assert list(faults(text)) == []
    found = parsed(text)
    assert found(SENT.name, trigger="t") == 5
    assert [found(DEPTH.name, queue=queue) for queue in "ab"] == [2, 5]


@pytest.mark.spec("TR-05")
def test_the_shipped_ones_are_named_as_they_should_be() -> None:
    offers = Registry.installed().offers()
    names = [metric.name for metric in METRICS]
    for offer in offers:
        for metric in offer.component.metrics:
            assert re.fullmatch(rf"tidegate_{offer.component.name}_[a-z_]+", metric.name)
            assert metric.name.endswith("_total") == (metric.type == "counter")
            assert metric.help.endswith(".")
            assert metric.name not in names
    assert declared(offer.component for offer in offers)
