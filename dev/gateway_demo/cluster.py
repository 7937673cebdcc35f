"""What `tidegate demo --kafka` runs on: a Kafka broker and a Spark standalone cluster, both on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from .processes import DemoError

if TYPE_CHECKING:
    from gateway_java.jars import Artifact

WORKERS = 2


@contextmanager
def kafka_and_spark(folder: Path, say: Callable[[str], None]) -> Iterator[dict[str, str]]:
    """Starts both, yields the environment variables that the demo's config needs, and stops them. They never outlive
    this process. `say` is called with progress messages. Raises `DemoError`."""
    from gateway_java.kafka import KafkaBroker
    from gateway_spark.submit.standalone import StandaloneCluster

    from gateway_core.contract.errors import TidegateError

    broker = KafkaBroker(folder / "kafka")
    spark = StandaloneCluster(folder / "spark", workers=WORKERS)
    try:
        try:
            _fetch(broker.version, say)
            say("starting a Kafka broker")
            broker.start()
            say(f"Kafka is listening at {broker.bootstrap}; starting a Spark cluster: a master and {WORKERS} workers")
            spark.start()
        except TidegateError as e:
            raise DemoError(str(e)) from e
        say(f"the Spark cluster is {spark.url}; its UI is at {spark.ui}")
        yield {"DEMO_KAFKA": broker.bootstrap, "DEMO_MASTER": spark.url}
    finally:
        spark.stop()
        broker.kill()  # its data belongs to the demo and need not be durable


def _fetch(kafka: str, say: Callable[[str], None]) -> None:
    """Fetches what is not in the cache yet, one by one, to show what takes long."""
    from gateway_java import jars, java
    from gateway_java.kafka import broker_artifacts
    from gateway_spark.connectors import connectors

    known = connectors()
    wanted: dict[str, list[Artifact]] = {
        f"Apache Kafka {kafka} (60 MB)": broker_artifacts(kafka),
        "Spark's connector to Kafka (6 MB)": list(known["kafka"]),
        "Delta Lake (18 MB)": list(known["delta"]),
    }
    for name, artifacts in wanted.items():
        if not jars.cached(artifacts):
            say(f"fetching {name}, once; this may take a minute")
            jars.fetch(artifacts, java.find())
