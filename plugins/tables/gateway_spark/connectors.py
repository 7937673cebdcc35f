"""The jars of Spark's connectors for the installed PySpark."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

from gateway_java.jars import Artifact

# The jars of Spark's own Kafka source, which Spark does not ship.
_KAFKA = (
    Artifact("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
    Artifact("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    Artifact("org.apache.kafka", "kafka-clients", "3.9.2"),
    Artifact("org.apache.commons", "commons-pool2", "2.12.0"),
)


def _delta(line: str) -> tuple[Artifact, ...]:
    # Delta's dependencies that Spark does not ship
    names = (f"delta-spark_{line}_2.13", "delta-storage", "delta-kernel-api", "delta-kernel-defaults")
    return tuple(Artifact("io.delta", name, "4.4.0") for name in names)


LINES: dict[str, dict[str, tuple[Artifact, ...]]] = {
    "4.1": {
        # no Kafka: filters over our columns cause an internal error in this version of Spark
        "delta": _delta("4.1"),
        "iceberg": (Artifact("org.apache.iceberg", "iceberg-spark-runtime-4.1_2.13", "1.11.0"),),
    },
    "4.2": {"delta": _delta("4.2"), "kafka": _KAFKA},
}
"""The jars that a job may need besides Spark, tested together: by Spark line, then by their name in `packages`."""
NEWEST = "4.2"


@cache
def line() -> str:
    """The line of the installed PySpark ("4.2"), or the newest known one if there is none."""
    try:
        return ".".join(version("pyspark").split(".")[:2])
    except PackageNotFoundError:
        return NEWEST


def connectors() -> dict[str, tuple[Artifact, ...]]:
    """The jars for the installed PySpark; for an unknown line, those of the newest."""
    return LINES.get(line(), LINES[NEWEST])


def missing(name: str) -> str:
    """Why there is no such connector for the installed PySpark, and what to do; "" if there is one."""
    lines = [each for each, known in LINES.items() if name in known]
    if not lines or name in connectors():
        return ""
    other = "the channel log" if name == "kafka" else "the format delta"
    return (
        f"{name.capitalize()} has no connector for Spark {line()} yet; use PySpark {lines[-1]} "
        f"(pip install 'pyspark=={lines[-1]}.*') or {other}"
    )
