"""Spark sessions with settings that are safe on any machine: the Java that was found, loopback only, UTC, quiet."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from gateway_java import jars, java

from . import class_archive, unnamed_user
from .connectors import connectors, missing
from .errors import SparkFault
from .job import Job
from .launch import JVM_OPTIONS, hidden_options, launched
from .session_conf import on_this_machine
from .tables.conf import conf_of_format
from .worker_python import worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOGGING = Path(__file__).with_name("log4j2.properties")


def artifacts_of(job: Job) -> dict[str, list[jars.Artifact]]:
    """The artifacts that a job needs besides Spark: those of its `packages`, or the tested ones. Raises `SparkFault` if
    `packages` has an entry that is not `organisation:name:revision`, or a connector does not support this version of
    Spark."""
    known, found = connectors(), {}
    for name in (job.format, job.channel):
        if not job.packages.get(name) and (why := missing(name)):
            raise SparkFault(why)
        if name not in known and name not in job.packages:
            continue
        try:
            chosen = [jars.Artifact.parse(text) for text in job.packages.get(name, [])]
        except ValueError as e:
            raise SparkFault(f"packages.{name}: {e}") from e
        found[name] = chosen or list(known[name])
    return found


def jars_of(job: Job, found: java.Java) -> list[Path]:
    """The jars that a job needs besides Spark, downloaded if they are not in the cache. Raises `StartError`."""
    return [path for artifacts in artifacts_of(job).values() for path in jars.fetch(artifacts, found)]


def settings(
    *,
    master: str = "local[2]",
    app: str = "tidegate",
    delta: Sequence[Path] = (),
    others: Sequence[Path] = (),
    memory: str = "",
    scratch: str = "",
    more: Mapping[str, str] | None = None,
    jvm: str = "",
) -> dict[str, str]:
    """The Spark settings of all our sessions. `delta` are Delta's jars, `others` further ones, `memory` the driver's
    ("2g"), `scratch` the folder for temporary files, `more` the user's settings, which override ours, and `jvm` the
    options of a JVM on this machine (`jvm_options`)."""
    if scratch:  # a killed JVM leaves its temporary files behind, and the system's folder may be read-only
        escaped = scratch.replace("\\", r"\\").replace('"', r"\"")
        jvm = f'"-Djava.io.tmpdir={escaped}" {jvm}'
    conf = {
        "spark.master": master,
        "spark.app.name": app,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        JVM_OPTIONS: f"-Duser.timezone=UTC -Dlog4j2.configurationFile={_LOGGING} {jvm}".strip(),
        "spark.sql.shuffle.partitions": "4",  # the default of 200 is for clusters
    }
    if on_this_machine(master):
        conf |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    for key, value in (more or {}).items():
        # ours set logging and UTC, so options of the JVM are appended
        conf[key] = f"{conf[key]} {value}" if key == JVM_OPTIONS else value
    if memory:
        conf["spark.driver.memory"] = memory
    if scratch:
        conf["spark.local.dir"] = scratch
        conf["spark.sql.warehouse.dir"] = f"{scratch}/warehouse"
    if delta or others:
        conf["spark.jars"] = ",".join(map(str, [*delta, *others]))
    if delta:
        conf = {**conf_of_format("delta", master), **conf}
    return conf


def jvm_options(found: java.Java) -> str:
    """The options of a JVM that runs on this machine, as this user."""
    return f"{class_archive.options(found)} {unnamed_user.options()}".strip()


def environment(found: java.Java, master: str = "local") -> dict[str, str]:
    """Environment variables that a process needs before it starts Spark. On this machine, workers use this Python with
    its packages (`worker_python`), whatever `python3` on PATH is. On a cluster, `PYSPARK_PYTHON` is used if it is set,
    else `python3`."""
    here = on_this_machine(master)
    chosen = "" if master.startswith("local") else os.environ.get("PYSPARK_PYTHON", "")
    python = chosen or (worker_python() if here else "python3")
    return {
        **({"SPARK_LOCAL_IP": "127.0.0.1"} if here else {}),
        "JAVA_HOME": str(found.home),
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


def session(
    master: str = "local[2]",
    app: str = "tidegate",
    delta: bool = False,
    memory: str = "",
    conf: Mapping[str, str] | None = None,
    kafka: bool = False,
    iceberg: bool = False,
) -> SparkSession:
    """A local Spark session with the data source `tidegate` registered. `delta` downloads Delta's jars (at the first
    use) and enables it, `kafka` those of Spark's Kafka source, `iceberg` Iceberg's (PySpark 4.1 only). Raises
    `MissingExtra` if PySpark or Java are not installed, else `StartError`."""
    from gateway_core.contract.errors import MissingExtra, StartError

    try:
        from pyspark import SparkConf, SparkContext
        from pyspark.sql import SparkSession
    except ImportError as e:
        raise MissingExtra("Spark needs PySpark: install tidegate[spark]") from e
    from .datasource import register

    found = java.find()
    os.environ.update(environment(found))
    wanted = [name for name, wish in (("kafka", kafka), ("iceberg", iceberg)) if wish]
    for name in wanted:
        if why := missing(name):
            raise StartError(why)
    known = connectors()
    fetched = jars.fetch(known["delta"], found) if delta else []
    others = [jar for name in wanted for jar in jars.fetch(known[name], found)]
    builder = SparkSession.builder
    more = {**(conf_of_format("iceberg", master) if iceberg else {}), **(conf or {})}
    jvm = jvm_options(found)
    with TemporaryDirectory(prefix="tidegate-") as made:
        more = hidden_options(more, Path(made))
        chosen = settings(master=master, app=app, delta=fetched, others=others, memory=memory, more=more, jvm=jvm)
        for key, value in chosen.items():
            builder = builder.config(key, value)
        if SparkContext._gateway is None:
            gateway = launched(chosen, Path(made))
            SparkContext._ensure_initialized(gateway=gateway, conf=SparkConf().setAll(list(chosen.items())))
            unnamed_user.name_user(SparkContext._jvm)
    spark = builder.getOrCreate()
    register(spark)
    return spark
