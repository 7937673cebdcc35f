"""What filters on data cost, in CPU microseconds per event: a router with 100 triggers that want types of their own,
and with triggers that look at the data as well. The cases take turns in short pieces; the median of the pieces counts.

    python tests/bench/data_filters.py --rounds 40
    python tests/bench/data_filters.py --python ../other/.venv/bin/python    # in turns with another tree
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gateway_basics.plugin
from gateway_log.routing import Router
from gateway_testing import FakeClock

from gateway_core.config.registry import Registry
from gateway_core.contract.component import BuildContext, FilterRef
from gateway_core.contract.event import Event
from gateway_core.contract.filter_guard import FilterGuard
from gateway_core.contract.filters import all_of

EVENTS = 400
ORDER = {
    "total": 120.5,
    "customer": {"tier": "gold", "id": "c-17", "name": "A. Customer"},
    "items": [{"sku": f"s-{n}", "price": n + 0.25, "count": n} for n in range(10)],
}
TYPE = {"exact": {"type": "type.7"}}
ONE = {"data": {"total": {"gt": 100}}}
TWO = {"data": {"total": {"gt": 100}, "customer.tier": ["gold", "platinum"]}}
CASES: dict[str, list[list[Any]]] = {
    "attributes only": [],
    "one trigger looks at one field": [[TYPE, ONE]],
    "one trigger looks at two fields": [[TYPE, TWO]],
    "five triggers look at the data": [[TYPE, ONE]] * 3 + [[TYPE, TWO]] * 2,
    "one trigger looks at an array": [[TYPE, {"data": {"items.price": {"gt": 9}}}]],
    "one without an index, of another type": [[{"suffix": {"type": ".none"}}, ONE]],
}


def router(more: list[list[Any]]) -> Router[int]:
    registry = Registry()
    registry.add("basics", gateway_basics.plugin)
    context = BuildContext("t", Path(), FakeClock(), registry)
    made: Router[int] = Router()
    for n, refs in enumerate([*([{"exact": {"type": f"type.{n}"}}] for n in range(100)), *more]):
        filters = [context.build(FilterRef.parse(ref)) for ref in refs]
        made.add(f"t{n}", FilterGuard(all_of(filters), "t").filter, n)
    return made


def piece(of: Router[int], release: Callable[[], object]) -> float:
    """CPU microseconds per event. Each event comes alone, as in a gateway that has little to do."""
    data = json.dumps(ORDER).encode()
    head = {"specversion": "1.0", "source": "/s", "type": "type.7", "datacontenttype": "application/json"}
    events = [Event({**head, "id": str(n)}, bytes(bytearray(data))) for n in range(EVENTS)]
    route = of.route
    began = time.thread_time()
    for event in events:
        route(event)
        release()
    return (time.thread_time() - began) / EVENTS * 1e6


def measured(rounds: int) -> dict[str, float]:
    """The medians by case."""
    release: Callable[[], object] = int  # a tree without the filter has nothing to release
    cases = {"attributes only": router([])}
    if any(component.name == "data" for component in gateway_basics.plugin.gateway_filters()):
        from gateway_core.contract.event_data import release

        cases = {name: router(more) for name, more in CASES.items()}
    found: dict[str, list[float]] = {name: [] for name in cases}
    for n in range(rounds + 1):
        for name, of in cases.items():
            took = piece(of, release)
            if n:  # the first one warms up
                found[name].append(took)
    return {name: round(statistics.median(took), 2) for name, took in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--python", help="an interpreter of another tree, which takes turns with this one")
    parser.add_argument("--json", action="store_true", help="one round of it, for machines")
    asked = parser.parse_args()
    if asked.json:
        print(json.dumps(measured(asked.rounds)))
        return
    pythons = {"here": sys.executable, **({"there": asked.python} if asked.python else {})}
    found: dict[tuple[str, str], list[float]] = {}
    for _ in range(5):
        for name, python in pythons.items():
            command = [python, __file__, "--json", "--rounds", str(asked.rounds // 5)]
            told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            for case, took in told.items():
                found.setdefault((name, case), []).append(took)
    for (name, case), took in found.items():
        print(f"{name:6} {case:40} {statistics.median(took):8.2f} us per event")


if __name__ == "__main__":
    main()
