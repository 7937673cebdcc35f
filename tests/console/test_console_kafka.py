"""Events of a broker whose channel is a Kafka topic."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import httpx
import pytest
from gateway_java.kafka import KafkaBroker

from tests import web
from tests.console.lab import lab
from tests.kafka_broker import channel_config

CONFIG = """
  orders:
    broker: default
    filters: [{exact: {type: order.created}}]
    subscriber: {http: {url: "{good}"}}
"""


@pytest.mark.spec("CO-25")
@pytest.mark.usefixtures("processes")
def test_events_of_a_topic_are_found_and_have_their_pages(kafka: KafkaBroker, tmp_path: Path) -> None:
    config = (channel_config(kafka, "aiokafka") + CONFIG).replace("{", "{{").replace("}", "}}")
    with (
        lab(tmp_path, config.replace("{{good}}", "{good}")) as found,
        web.client(headers=found.gateway.admin_headers, timeout=60) as client,
    ):
        found.send(*({"id": f"k{n}", "type": "order.created" if n == 3 else "other"} for n in range(10)))
        found.gateway.wait_until(lambda: found.gateway.trigger("orders")["delivered"] == 1)

        def listed(**asked: str) -> tuple[set[str], str]:
            """The ids that a search finds, over all its steps, and its last page."""
            rows, path = "", f"{found.url}/events?{httpx.QueryParams(asked)}"
            while path:
                rows += (text := client.get(path).raise_for_status().text)
                more = re.search(r'hx-get="(/console/events/more\?[^"]*rest=[^"]*)" hx-target="closest tr"', text)
                path = found.gateway.admin_url + unescape(more[1]) if more and "stop=1" not in more[1] else ""
            return set(re.findall(r">(k\d)</a>", rows)), rows

        assert listed(type="order.*", source="/tests")[0] == {"k3"}
        ids, rows = listed(type="other", since="2020-01-01T00:00")
        assert ids == {f"k{n}" for n in range(10)} - {"k3"}
        assert "can't be searched" not in rows
        link = re.search(r'href="(/console/events\?id=k3[^"]*)"', listed(type="order.created")[1])
        assert link is not None
        for path in (unescape(link[1]), "/console/events?id=k3"):
            text = client.get(found.gateway.admin_url + path).text
            assert "Accepted by default at position" in text
            assert re.search(r'orders</a>\s*<span class="state good">delivered</span>', re.sub(r"\n+", "\n", text)), (
                text
            )
