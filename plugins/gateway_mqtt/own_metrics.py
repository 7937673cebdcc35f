"""The plugin's own metrics."""

from __future__ import annotations

from gateway_core.contract.component import OwnMetric

LOST = OwnMetric(
    "tidegate_mqtt_connections_lost_total", "counter", "Connections to an MQTT server that were lost, by either side."
)
