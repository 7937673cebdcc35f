"""Fetches the jars and servers that the suite needs, unless they are cached or installed. `make test` runs it first.
Ends with 1 if jars can't be had.

A test has a time limit; how long the first download takes, nobody can promise.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gateway_dev import program, servers
from gateway_java import jars, java
from gateway_java.kafka import VERSION, broker_artifacts
from gateway_spark.connectors import connectors, missing

from gateway_core.contract.errors import StartError


def main() -> None:
    """Fetches what is not cached, and says so. A server that can't be had is no failure here: its tests say so. Raises
    `StartError` for jars."""
    for server in servers.ALL.values():
        try:
            program.find(server.program)
        except servers.Missing as e:
            print(f"tidegate: {e}", file=sys.stderr)
    parse = jars.Artifact.parse
    tools = [parse(f"org.apache.kafka:{name}:{VERSION}", transitive=True) for name in ("kafka_2.13", "kafka-tools")]
    wanted: dict[str, Sequence[jars.Artifact]] = {"a Kafka broker": broker_artifacts(), "Kafka's console tools": tools}
    wanted |= {f"Spark's connector {name}": artifacts for name, artifacts in connectors().items() if not missing(name)}
    absent = {name: artifacts for name, artifacts in wanted.items() if not jars.cached(artifacts)}
    if not absent:
        return
    found = java.find()
    for name, artifacts in absent.items():
        print(f"tidegate: fetching the jars of {name}", file=sys.stderr)
        jars.fetch(artifacts, found)


if __name__ == "__main__":
    try:
        main()
    except StartError as e:
        sys.exit(f"tidegate: {e}")
