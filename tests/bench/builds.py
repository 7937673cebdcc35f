"""The pure build beside the compiled one: CPU per event of the same gateway on each, in turn, and the ratio.

    make quick BUILD=compiled           (makes .venv-compiled)
    .venv/bin/python tests/bench/builds.py --rounds 5 [--kafka] [--only TEXT]

The median of the rounds' ratios is shown: both builds of a round run one after the other, so that other work on the
machine weighs on both.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from subprocess import Popen
from typing import IO, Any

import httpx
from gateway_java.kafka import KafkaBroker
from gateway_testing import GatewayProcess
from kafka import CLIENTS, INTO, OUT
from measure import cpu_s, load, measured
from rich.console import Console
from rich.table import Table
from run import INGRESS, bare_server

ROOT = Path(__file__).parents[2]
BUILDS = {"pure": ROOT / ".venv/bin/python", "compiled": ROOT / ".venv-compiled/bin/python"}
Case = Callable[[str], float]
"""CPU microseconds per event on this build."""


class Gateway(GatewayProcess):
    """A gateway on one of the builds."""

    def __init__(self, build: str, config: str, folder: Path) -> None:
        folder.mkdir(parents=True)
        super().__init__(config, folder)
        self._python = BUILDS[build]

    def _begin(self, command: Sequence[str], env: Mapping[str, str], log: IO[bytes]) -> Popen[bytes]:
        return super()._begin([str(self._python) if c == sys.executable else c for c in command], env, log)


def ingress(gateways: Mapping[str, Gateway], name: str, **options: Any) -> Case:
    def case(build: str) -> float:
        gateway = gateways[build]
        return float(measured(gateway.pid, gateway.ingress(name), **options)["cpu_us"])

    return case


def arrived(url: str) -> int:
    return int(httpx.get(url, verify=False).text)


def through(gateways: Mapping[str, Gateway], sink_url: str, seconds: float) -> Case:
    """From the ingress to the subscriber, until it has all."""

    def case(build: str) -> float:
        gateway = gateways[build]
        before, cpu = arrived(sink_url), cpu_s(gateway.pid)
        sent = load(gateway.ingress(), mode="binary", seconds=seconds)["events"]
        _until(sink_url, before + sent)
        return (cpu_s(gateway.pid) - cpu) * 1e6 / sent

    return case


def out_of_kafka(
    broker: KafkaBroker, client: str, feeder: Gateway, sink_url: str, folder: Path, seconds: float
) -> Case:
    """Records that wait are delivered by a gateway that starts for it; its start counts little."""
    runs = iter(range(1000))

    def case(build: str) -> float:
        group = f"{client}-{next(runs)}"
        config = _filled(OUT, broker, client, group, sink_url)
        with Gateway(build, config, folder / group) as gateway:
            gateway.start()
            before, cpu = arrived(sink_url), cpu_s(gateway.pid)
            sent = load(feeder.ingress("in"), mode="batch", seconds=seconds)["events"]
            _until(sink_url, before + sent)
            return (cpu_s(gateway.pid) - cpu) * 1e6 / sent

    return case


def _filled(text: str, broker: KafkaBroker, client: str, name: str, url: str) -> str:
    for word, value in {"BOOTSTRAP": broker.bootstrap, "TOPIC": f"bench-{client}", "CLIENT": client}.items():
        text = text.replace(word, value)
    return text.replace("NAME", name).replace("URL", url)


def _until(sink_url: str, wanted: int) -> None:
    end = time.monotonic() + 300
    while (found := arrived(sink_url)) < wanted:
        assert time.monotonic() < end, f"{found} of {wanted} events arrived"
        time.sleep(0.05)


@contextlib.contextmanager
def started(config: str, folder: Path) -> Iterator[dict[str, Gateway]]:
    """The same gateway on each build."""
    with contextlib.ExitStack() as stack:
        found = {build: stack.enter_context(Gateway(build, config, folder / build)) for build in BUILDS}
        yield found
        for gateway in found.values():
            gateway.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--kafka", action="store_true", help="also the cases with a Kafka broker")
    parser.add_argument("--only", default="", help="only cases whose name holds this text")
    a = parser.parse_args()
    sink, sink_url = bare_server()
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as stack:
        stack.callback(sink.wait)
        stack.callback(sink.terminate)
        folder = Path(scratch)
        to_log = stack.enter_context(started(INGRESS, folder / "log"))
        to_http = stack.enter_context(
            started(INGRESS + f"triggers: {{all: {{subscriber: '{sink_url}'}}}}\n", folder / "http")
        )
        cases: dict[str, Case] = {
            f"ingress to log, {mode}": ingress(to_log, "default", mode=mode, seconds=a.seconds)
            for mode in ("binary", "structured", "batch")
        }
        cases["ingress to log to HTTP subscriber"] = through(to_http, sink_url, a.seconds)
        if a.kafka:
            (folder / "kafka").mkdir()
            broker = KafkaBroker(folder / "kafka" / "broker", properties={"num.partitions": "4"})
            broker.start()
            stack.callback(broker.stop)
            for client in CLIENTS:
                config = _filled(INTO, broker, client, "", "")
                into = stack.enter_context(started(config, folder / f"into-{client}"))
                for mode in ("binary", "batch"):
                    cases[f"HTTP to Kafka, {mode}, {client}"] = ingress(into, "in", mode=mode, seconds=a.seconds)
                feeder, place = into["pure"], folder / f"out-{client}"
                cases[f"Kafka to HTTP, {client}"] = out_of_kafka(broker, client, feeder, sink_url, place, a.seconds)
        runs = measure({name: case for name, case in cases.items() if a.only in name}, a.rounds)
    show(runs)


def measure(cases: Mapping[str, Case], rounds: int) -> dict[str, list[dict[str, float]]]:
    """The CPU per event of each case, round and build; the builds take turns at going first."""
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in cases}
    for number in range(rounds):
        order = list(BUILDS) if number % 2 == 0 else list(reversed(BUILDS))
        for name, case in cases.items():
            runs[name].append({build: case(build) for build in order})
            print(f"round {number + 1}: {name}: {runs[name][-1]}", file=sys.stderr, flush=True)
    return runs


def show(runs: Mapping[str, list[dict[str, float]]]) -> None:
    table = Table(title="CPU per event, pure and compiled")
    for column in ("case", "pure, us", "compiled, us", "ratio", "lowest", "highest"):
        table.add_column(column, justify="left" if column == "case" else "right")
    for name, found in runs.items():
        ratios = [run["compiled"] / run["pure"] for run in found]
        each = [statistics.median(run[build] for run in found) for build in BUILDS]
        numbers = [
            *(f"{n:.1f}" for n in each),
            f"{statistics.median(ratios):.2f}",
            f"{min(ratios):.2f}",
            f"{max(ratios):.2f}",
        ]
        table.add_row(name, *numbers)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
