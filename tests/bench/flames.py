"""Flame graphs of the paths of `compare.py`, of the pure build above those of the compiled one.

    make quick BUILD=compiled                       # makes .venv-compiled
    .venv/bin/python tests/bench/flames.py          # docs/images/flames-*.svg

py-spy samples the gateway's threads from the end of its start to the end of the load, with the frames of compiled code
and libraries. Threads that wait are left out; so is the event loop's wait for the network, even if it is short.
The widths are shares of the other samples; what an event costs, `compare.py` says.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from compare import Bench
from flame_graph import svg, tree
from measure import bare_server
from sides import ROOT, Gateway, _Gateway

CASES = {
    "HTTP to Kafka, binary": "flames-http-to-kafka.svg",
    "Kafka to HTTP": "flames-kafka-to-http.svg",
    "HTTP to log, binary": "flames-http-to-log.svg",
}
LIMIT_S = 300
SPY = Path(sysconfig.get_path("scripts")) / "py-spy"


class _Watched(Gateway):
    """Gateways that py-spy looks at."""

    def __init__(self, name: str, python: str, stacks: Path, rate: int) -> None:
        super().__init__(name, python)
        self._stacks = stacks
        self._rate = rate

    def started(self, folder: Path, config: str, broker: str = "") -> _Gateway:
        gateway = super().started(folder, config, broker)
        what = ["--native", "--function", "--format", "raw", "--rate", str(self._rate), "--duration", str(LIMIT_S)]
        command = [str(SPY), "record", "--pid", str(gateway.pid), *what, "--output", str(self._stacks)]
        spy = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        stop = gateway.stop

        def ended() -> None:
            spy.send_signal(signal.SIGINT)  # it writes what it saw
            spy.wait(timeout=120)
            stop()

        gateway.stop = ended
        return gateway


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiled", default=".venv-compiled/bin/python", help="the interpreter of the compiled build")
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--events", type=int, default=200_000, help="how many are delivered from Kafka")
    parser.add_argument("--rate", type=int, default=100, help="samples per second")
    parser.add_argument("--only", default="", help="only cases whose name holds this text")
    parser.add_argument("--stacks", type=Path, help="a folder for what py-spy wrote; speedscope.app shows it, too")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    a = parser.parse_args()
    if not SPY.exists():
        raise SystemExit("There is no py-spy here; `pip install py-spy` brings it.")
    pythons = {"pure": sys.executable, "compiled": os.path.abspath(a.compiled)}
    with tempfile.TemporaryDirectory() as scratch, bare_server() as subscriber:
        folder = Path(scratch)
        bench = Bench(folder, a.seconds, a.events, subscriber)
        try:
            for case, file in CASES.items():
                if a.only not in case:
                    continue
                graphs = {}
                for build, python in pythons.items():
                    stacks = (a.stacks or folder) / f"{Path(file).stem}-{build}.txt"
                    bench.cases()[case](_Watched(build, python, stacks, a.rate))
                    graphs[build] = tree(stacks.read_text().splitlines())
                (a.out / file).write_text(svg(case, graphs))
                print(f"{a.out / file}: {(a.out / file).stat().st_size / 1000:.0f} kB")
        finally:
            bench.close()


if __name__ == "__main__":
    main()
