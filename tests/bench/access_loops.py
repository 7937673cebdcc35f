"""What authentication costs: CPU per event from HTTP into the log, beside an ingress that lets in anyone.

Each case is an ingress and a broker of one gateway, since two processes that do the same differ by up to a tenth for as
long as they live, by where their memory lies. The ingresses are loaded in turn, in an order that rotates, with the same
number of requests: many short rounds, each compared with the open ingresses of that round, since the machine's own
speed changes from one second to the next. The range holds nine of ten medians of rounds drawn again; "open, again"
shows what is left of chance. The requests of "open, with a key" have the header of `api_key`, which nobody looks at:
what is left is the cost of the check.

    python tests/bench/access_loops.py --sittings 3 --rounds 100 --events 1000
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gateway_auth.keys import add_key
from gateway_auth.passwords import hash_of, set_password
from gateway_testing import GatewayProcess
from joserfc import jwt
from joserfc.jwk import RSAKey
from measure import load
from rich.console import Console
from rich.table import Table

WARM = 2000

Ingress = tuple[list[dict[str, Any]], str]
"""What it has in `authenticate`, and a header field that proves a sender."""


def no_lock(folder: Path) -> Ingress:
    return [], ""


def ignored(folder: Path) -> Ingress:
    return [], f"x-api-key: {add_key(folder / 'keys.json', 'bench')[1]}"


def api_key(folder: Path) -> Ingress:
    file = folder / "keys.json"
    return [{"api_key": {"file": str(file)}}], f"x-api-key: {add_key(file, 'bench')[1]}"


def basic(folder: Path) -> Ingress:
    file = folder / "users.json"
    set_password(file, "bench", hash_of(b"password"))
    return [{"basic": {"file": str(file)}}], f"authorization: Basic {b64encode(b'bench:password').decode()}"


def oidc(folder: Path) -> Ingress:
    """A token as issuers make them: RS256, some claims. The first request verifies it, the others find it."""
    key = RSAKey.generate_key(2048, {"kid": "bench"})
    file = folder / "jwks.json"
    file.write_text(json.dumps({"keys": [key.as_dict(private=False)]}))
    now = int(time.time())
    claims = {"iss": "https://login.example", "aud": "tidegate", "sub": "system:serviceaccount:default:orders"}
    token = jwt.encode({"alg": "RS256", "kid": "bench"}, {**claims, "iat": now, "exp": now + 3600}, key)
    options = {"issuer": claims["iss"], "audience": "tidegate", "jwks_file": str(file)}
    return [{"oidc": options}], f"authorization: Bearer {token}"


CASES: dict[str, tuple[Callable[[Path], Ingress], str]] = {
    "open": (no_lock, ""),
    "open, again": (no_lock, ""),
    "open, with a key": (ignored, ""),
    "api_key": (api_key, "<= 1.05x"),
    "basic": (basic, ""),
    "oidc": (oidc, "<= 1.15x"),
}
"""How each is made, and its goal."""


def cpu_us(pid: int) -> float:
    """CPU microseconds of all threads of a process."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1000


class Sitting:
    """A gateway with an ingress for each case."""

    def __init__(self, folder: Path) -> None:
        brokers: dict[str, Any] = {}
        self._headers: dict[str, str] = {}
        for number, (name, (made, _)) in enumerate(CASES.items()):
            place = folder / str(number)
            place.mkdir()
            authenticate, self._headers[name] = made(place)
            options: dict[str, Any] = {"listen": "127.0.0.1:0"}
            if authenticate:
                options["authenticate"] = authenticate
            brokers[f"b{number}"] = {"ingress": [{"http": options}]}
        self._gateway = GatewayProcess(json.dumps({"brokers": brokers}), folder)
        self._gateway.start()
        self._urls = {name: self._gateway.ingress(f"b{number}") for number, name in enumerate(CASES)}

    def run(self, case: str, events: int) -> dict[str, float]:
        """What one round of a case took."""
        before = cpu_us(self._gateway.pid)
        result = load(self._urls[case], mode="binary", seconds=120, limit=events, header=self._headers[case])
        assert result["bad"] == 0, result
        spent = (cpu_us(self._gateway.pid) - before) / result["events"]
        return {"cpu_us": spent, "events_per_s": result["events_per_s"]}

    def close(self) -> None:
        self._gateway.stop()


Runs = dict[str, list[dict[str, float]]]


def sitting(rounds: int, events: int) -> Runs:
    """What each case took in each round."""
    runs: Runs = {name: [] for name in CASES}
    with tempfile.TemporaryDirectory() as scratch:
        gateway = Sitting(Path(scratch))
        try:
            names = list(CASES)
            for name in names:
                gateway.run(name, WARM)
            for number in range(rounds):
                turn = number % len(names)
                for name in names[turn:] + names[:turn]:
                    runs[name].append(gateway.run(name, events))
        finally:
            gateway.close()
    return runs


def median(runs: list[dict[str, float]], key: str) -> float:
    return statistics.median(run[key] for run in runs)


def beside_open(name: str, sittings: list[Runs]) -> tuple[float, float, float]:
    """The median of the rounds' ratios, and its range."""
    ratios = [
        run["cpu_us"] / math.sqrt(first["cpu_us"] * second["cpu_us"])
        for runs in sittings
        for run, first, second in zip(runs[name], runs["open"], runs["open, again"], strict=True)
    ]
    dice = random.Random(1)
    drawn = sorted(statistics.median(dice.choices(ratios, k=len(ratios))) for _ in range(400))
    return statistics.median(ratios), drawn[20], drawn[379]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sittings", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--events", type=int, default=1_000)
    parser.add_argument("--json", default="")
    a = parser.parse_args()
    sittings = [sitting(a.rounds, a.events) for _ in range(a.sittings)]
    table = Table("case", "CPU us/event", "events/s", "beside open", "range", "goal")
    for name, (_, goal) in CASES.items():
        runs = [run for each in sittings for run in each[name]]
        ratio, least, most = beside_open(name, sittings)
        cells = [f"{median(runs, 'cpu_us'):.2f}", f"{median(runs, 'events_per_s'):,.0f}"]
        table.add_row(name, *cells, f"{ratio:.3f}x", f"{least:.3f}x to {most:.3f}x", goal)
    (Console() if sys.stdout.isatty() else Console(width=120)).print(table)
    if a.json:
        Path(a.json).write_text(json.dumps(sittings, indent=1) + "\n")


if __name__ == "__main__":
    main()
