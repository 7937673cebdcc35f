"""The cases with Kafka: a broker of its own on loopback, a gateway for each client library and direction."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from gateway_java.kafka import KafkaBroker
from gateway_testing import GatewayProcess
from measure import cpu_s, measured, memory_mb

CLIENTS = ("aiokafka", "confluent")
INTO = """
bridges:
  in:
    source: {http: {listen: "127.0.0.1:0"}}
    sink: {kafka: {bootstrap: "BOOTSTRAP", topic: TOPIC, client: CLIENT}}
"""
OUT = """
bridges:
  out:
    source: {kafka: {bootstrap: "BOOTSTRAP", topic: TOPIC, client: CLIENT, group: NAME}}
    sink: URL
"""
TARGETS = {
    "HTTP to Kafka, binary, aiokafka": "<= 1.35x Go floor (21.9 us there)",
    "HTTP to Kafka, binary, confluent": "<= 1.0x Go floor (21.9 us there)",
    "HTTP to Kafka, structured, confluent": "<= 1.1x Go floor (27.1 us there)",
    "HTTP to Kafka, batch of 100, confluent": "<= 1.2x Go floor (7.8 us there)",
    "HTTP to Kafka, 1,000/s, confluent": "p50 <= 0.5 ms, p99 <= 1.0 ms",
    "Kafka to HTTP, confluent": "<= 1.2x Go floor (24.6 us there)",
}


class Kafka:
    """The broker and the gateways in front of it."""

    def __init__(self, folder: Path, seconds: float, sink_url: str) -> None:
        self._folder = folder
        self._seconds = seconds
        self._sink_url = sink_url
        self._number = 0
        folder.mkdir()
        self._broker = KafkaBroker(folder / "broker", properties={"num.partitions": "4"})
        self._broker.start()
        self._into = {client: self._gateway(INTO, client) for client in CLIENTS}

    def _gateway(self, text: str, client: str) -> GatewayProcess:
        self._number += 1
        place = self._folder / f"gateway-{self._number}"
        place.mkdir()
        text = text.replace("BOOTSTRAP", self._broker.bootstrap).replace("TOPIC", f"bench-{client}")
        text = text.replace("CLIENT", client).replace("NAME", place.name).replace("URL", self._sink_url)
        gateway = GatewayProcess(text, place)
        gateway.start()
        return gateway

    def cases(self) -> dict[str, Callable[[], dict[str, Any]]]:
        """Every case by its name."""
        modes = {"binary": "binary", "structured": "structured", "batch of 100": "batch"}
        found: dict[str, Callable[[], dict[str, Any]]] = {}
        for name, mode in modes.items():
            for client in CLIENTS:
                found[f"HTTP to Kafka, {name}, {client}"] = lambda c=client, m=mode: self._in(c, mode=m)
        for client in CLIENTS:
            found[f"HTTP to Kafka, 1,000/s, {client}"] = lambda c=client: self._in(c, mode="binary", rate=1000)
            found[f"Kafka to HTTP, {client}"] = lambda c=client: self._out(c)
        return found

    def _in(self, client: str, **options: Any) -> dict[str, Any]:
        gateway = self._into[client]
        return measured(gateway.pid, gateway.ingress("in"), seconds=self._seconds, **options)

    def _out(self, client: str) -> dict[str, Any]:
        """Records come in by another gateway, batched, and wait; then the one that is measured delivers them."""
        gateway = self._gateway(OUT, client)
        try:
            before, cpu, began = (
                int(httpx.get(self._sink_url, verify=False).text),
                cpu_s(gateway.pid),
                time.perf_counter(),
            )
            sent = self._in(client, mode="batch")["events"]
            while (arrived := int(httpx.get(self._sink_url, verify=False).text) - before) < sent:
                assert time.perf_counter() - began < 300, f"{arrived} of {sent} events arrived"
                time.sleep(0.02)
            took = time.perf_counter() - began
            spent = cpu_s(gateway.pid) - cpu
            rates = {"cpu_us": spent * 1e6 / arrived, "events_per_s": arrived / took}
            return {"events": arrived, **rates, "memory_mb": memory_mb(gateway.pid)}
        finally:
            gateway.stop()

    def close(self) -> None:
        for gateway in self._into.values():
            gateway.stop()
        self._broker.stop()
