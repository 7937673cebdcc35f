"""What authentication costs: CPU per event from HTTP into the log, beside an ingress that lets in anyone.

Each case has a gateway of its own. All run at once and are loaded in turn, in an order that rotates, with the same
number of requests: many short rounds, since other work on the machine comes and goes. Two processes that do the same
differ by up to a tenth for as long as they live, by where their memory lies. So each sitting starts all anew, and what
counts is the median of the sittings' ratios; "open, again" shows what is left of chance. The requests of "open, with a
key" have the header of `api_key`, which nobody looks at: what is left is the cost of the check.

    python tests/bench/access_loops.py --sittings 12 --rounds 8 --events 2500
"""

from __future__ import annotations

import argparse
import json
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

CONFIG = "brokers: {default: {ingress: [http: %s]}}\n"
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


class Case:
    """A gateway, and what its senders show."""

    def __init__(self, folder: Path, made: Callable[[Path], Ingress]) -> None:
        folder.mkdir()
        authenticate, self._header = made(folder)
        options: dict[str, Any] = {"listen": "127.0.0.1:0"}
        if authenticate:
            options["authenticate"] = authenticate
        self._gateway = GatewayProcess(CONFIG % json.dumps(options), folder)
        self._gateway.start()
        self._url = self._gateway.ingress()

    def run(self, events: int) -> dict[str, float]:
        before = cpu_us(self._gateway.pid)
        result = load(self._url, mode="binary", seconds=120, limit=events, header=self._header)
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
        cases = {name: Case(Path(scratch) / name, made) for name, (made, _) in CASES.items()}
        try:
            for case in cases.values():
                case.run(WARM)
            names = list(cases)
            for number in range(rounds):
                turn = number % len(names)
                for name in names[turn:] + names[:turn]:
                    runs[name].append(cases[name].run(events))
        finally:
            for case in cases.values():
                case.close()
    return runs


def median(runs: list[dict[str, float]], key: str) -> float:
    return statistics.median(run[key] for run in runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sittings", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--events", type=int, default=2_500)
    parser.add_argument("--json", default="")
    a = parser.parse_args()
    sittings = [sitting(a.rounds, a.events) for _ in range(a.sittings)]
    table = Table("case", "CPU us/event", "events/s", "beside open", "of the sittings, half are in", "goal")
    for name, (_, goal) in CASES.items():
        ratios = sorted(median(runs[name], "cpu_us") / median(runs["open"], "cpu_us") for runs in sittings)
        runs = [run for each in sittings for run in each[name]]
        table.add_row(
            name,
            f"{median(runs, 'cpu_us'):.2f}",
            f"{median(runs, 'events_per_s'):,.0f}",
            f"{statistics.median(ratios):.3f}x",
            f"{ratios[len(ratios) // 4]:.3f}x to {ratios[(3 * len(ratios)) // 4]:.3f}x",
            goal,
        )
    (Console() if sys.stdout.isatty() else Console(width=120)).print(table)
    if a.json:
        Path(a.json).write_text(json.dumps(sittings, indent=1) + "\n")


if __name__ == "__main__":
    main()
