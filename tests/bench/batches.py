"""CPU time of the gateway per delivered event, one by one and in batches of 100, interleaved: what the log has is read,
matched, written and sent to a subscriber on this machine. The cost of a start without events is taken off."""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import httpx
from gateway_testing import GatewayProcess

from tests.bench.measure import bare_server, cpu_s

INGRESS = 'brokers: {default: {ingress: [{http: {listen: "127.0.0.1:0"}}]}}\n'
TRIGGER = "triggers: {%s: {start: earliest, subscriber: {http: {url: %s%s}}}}\n"


def fill(gateway: GatewayProcess, events: int) -> None:
    """Stores events with about 250 bytes of data."""
    with httpx.Client() as client:
        for first in range(0, events, 500):
            batch = [
                {
                    "specversion": "1.0",
                    "id": str(n),
                    "source": "/bench",
                    "type": "t",
                    "data": {"text": "x" * 230, "n": n},
                }
                for n in range(first, min(events, first + 500))
            ]
            headers = {"content-type": "application/cloudevents-batch+json"}
            client.post(gateway.ingress(), content=json.dumps(batch), headers=headers).raise_for_status()


def cost_s(gateway: GatewayProcess, name: str, url: str, batch: str, events: int) -> float:
    """CPU seconds of a gateway until a new trigger has delivered all events."""
    gateway.config.write_text(INGRESS + TRIGGER % (name, url, batch))
    gateway.start()
    try:
        while gateway.status()["triggers"][0]["delivered"] < events:
            time.sleep(0.3)
        return cpu_s(gateway.pid)
    finally:
        gateway.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=30_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, bare_server() as server:
        (Path(folder) / "empty").mkdir()
        gateway, empty = GatewayProcess(INGRESS, Path(folder)), GatewayProcess(INGRESS, Path(folder, "empty"))
        with gateway:
            fill(gateway, given.events)
        found: dict[str, list[float]] = {"one by one": [], "batches of 100": []}
        for number in range(given.rounds):
            start = cost_s(empty, f"e{number}", server.url, "", 0)
            for what, batch in (("one by one", ""), ("batches of 100", ", batch: {max_events: 100}")):
                spent = cost_s(gateway, f"{what[0]}{number}", server.url, batch, given.events) - start
                found[what].append(spent / given.events * 1e6)
        medians = {what: statistics.median(values) for what, values in found.items()}
        for what, values in found.items():
            print(f"{what:15} {medians[what]:6.1f} us of CPU per event ({min(values):.1f} to {max(values):.1f})")
        print(f"{'ratio':15} {medians['batches of 100'] / medians['one by one']:6.2f}")


if __name__ == "__main__":
    main()
