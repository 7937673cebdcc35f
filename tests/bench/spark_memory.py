"""Whether memory grows: many events by HTTP into a log that a Spark table follows; prints one JSON line with the memory
of each process through time. Arguments: events (10000000), folder."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from gateway_testing import GatewayProcess
from measure import HERE, children, memory_mb

from tests.repeated import repeated

CONFIG = """
brokers:
  default:
    ingress: [http: {listen: "127.0.0.1:0"}]
triggers:
  table:
    start: earliest
    subscriber: {spark: {path: TABLE, format: FORMAT, driver_memory: 1g}}
"""
EACH_S = 20.0
SAMPLE_S = 5.0


def tree(pid: int) -> dict[str, float]:
    """Resident memory in MB of the gateway, the driver and Spark's JVM."""
    found = {"gateway": memory_mb(pid), "driver": 0.0, "jvm": 0.0}
    for child in children(pid):
        command = Path(f"/proc/{child}/cmdline").read_bytes()
        if b"gateway_spark.driver" in command:
            found["driver"] = memory_mb(child)
            for below in children(child):
                if b"java" in Path(f"/proc/{below}/cmdline").read_bytes().split(b"\0")[0]:
                    found["jvm"] = max(found["jvm"], memory_mb(below))
    return found


def lag(gateway: GatewayProcess) -> int:
    known = gateway.trigger("table")["lag"]
    return -1 if known is None else int(known)


def main() -> None:
    wanted, folder = int(sys.argv[1]), Path(sys.argv[2])
    kind = sys.argv[3] if len(sys.argv) > 3 else "parquet"
    folder.mkdir(parents=True, exist_ok=True)
    text = CONFIG.replace("TABLE", str(folder / "table")).replace("FORMAT", kind)
    gateway = GatewayProcess(text, folder)
    gateway.start()
    samples: list[dict[str, Any]] = []
    sent = 0
    began = time.monotonic()

    def sample() -> None:
        samples.append({"s": round(time.monotonic() - began), "sent": sent, **tree(gateway.pid)})
        print(samples[-1], file=sys.stderr, flush=True)

    try:
        with repeated(sample, SAMPLE_S):
            while sent < wanted:
                command = [sys.executable, str(HERE / "load.py"), gateway.ingress(), "--mode", "batch"]
                ran = subprocess.run([*command, "--seconds", str(EACH_S)], capture_output=True, text=True, check=True)
                sent += json.loads(ran.stdout)["events"]
                while lag(gateway) > 2_000_000:  # the log must not fill the disk
                    time.sleep(1)
            while lag(gateway) != 0:
                time.sleep(1)
    finally:
        took = time.monotonic() - began
        gateway.stop()
    print(json.dumps({"events": sent, "seconds": round(took, 1), "samples": samples}))


if __name__ == "__main__":
    main()
