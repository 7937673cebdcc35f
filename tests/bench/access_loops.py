"""What authentication costs: CPU per event from HTTP into the log, beside an ingress that lets in anyone.

Each case has a gateway of its own. All run at once and are loaded in turn, in an order that rotates, with the same
number of requests: many short rounds, since other work on the machine comes and goes. The first ratio is that of the
medians, the second the median of the ratios of each round. The requests of "open, with a key" have the header of
`api_key`, which nobody looks at: what is left is the cost of the check.

    python tests/bench/access_loops.py --rounds 31 --events 3000
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--events", type=int, default=3_000)
    parser.add_argument("--json", default="")
    a = parser.parse_args()
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in CASES}
    with tempfile.TemporaryDirectory() as scratch:
        cases = {name: Case(Path(scratch) / name, made) for name, (made, _) in CASES.items()}
        try:
            for case in cases.values():
                case.run(WARM)
            names = list(cases)
            for number in range(a.rounds):
                turn = number % len(names)
                for name in names[turn:] + names[:turn]:
                    runs[name].append(cases[name].run(a.events))
        finally:
            for case in cases.values():
                case.close()
    medians = {name: {key: statistics.median(r[key] for r in of) for key in of[0]} for name, of in runs.items()}
    table = Table("case", "CPU us/event", "events/s", "beside open", "round by round", "goal")
    for name, row in medians.items():
        cells = [
            f"{row['cpu_us']:.2f}",
            f"{row['events_per_s']:,.0f}",
            f"{row['cpu_us'] / medians['open']['cpu_us']:.3f}x",
        ]
        paired = statistics.median(r["cpu_us"] / o["cpu_us"] for r, o in zip(runs[name], runs["open"], strict=True))
        table.add_row(name, *cells, f"{paired:.3f}x", CASES[name][1])
    (Console() if sys.stdout.isatty() else Console(width=120)).print(table)
    if a.json:
        Path(a.json).write_text(json.dumps({"medians": medians, "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
