"""Spark settings that depend on the job: the same in the gateway's own process and in a submitted job."""

from __future__ import annotations

from urllib.parse import urlsplit

from .job import Job
from .tables.conf import conf_of_format
from .tables.owner import local_path

_LOOPBACK = ("localhost", "127.0.0.1", "::1")

# The status store keeps data for the web interface, even if that is off. A long-running query creates a job for each
# batch, so the store is kept small.
_SMALL = {
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "500",
    "spark.ui.dagGraph.retainedRootRDDs": "20",
    "spark.ui.liveUpdate.period": "1s",
    "spark.sql.ui.retainedExecutions": "20",
    "spark.sql.streaming.ui.retainedProgressUpdates": "50",
    "spark.sql.streaming.ui.retainedQueries": "2",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
}

# Spark's default starts about ten processes (chmod, stat) for each small file on a local disk, two thirds of the time
# of a small batch. This one also renames atomically there, and our locks exclude a second writer.
_LOCAL_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

# The JVM does not compile methods above 8,000 bytes of bytecode. Spark's code for a whole stage of ours may be longer,
# and then takes three times as long; with this limit it is split instead.
COMPILED = {"spark.sql.codegen.hugeMethodLimit": "8000"}


def conf_of(job: Job) -> dict[str, str]:
    """The settings of a job's session, except jars, master and memory; the user's settings override ours."""
    conf = {
        **_SMALL,
        **COMPILED,
        # on loopback, by SPARK_LOCAL_IP; on a cluster it would be open to the network, which the user must decide
        "spark.ui.enabled": str(job.ui and on_this_machine(job.master)).lower(),
        "spark.ui.port": "0",
        "spark.sql.session.timeZone": "UTC",
    }
    if job.master.startswith("local"):
        conf["spark.sql.shuffle.partitions"] = "4"  # 200 is made for clusters
    if local_path(job.checkpoint) and local_path(job.table):
        conf["spark.sql.streaming.checkpointFileManagerClass"] = _LOCAL_FILES
    return {**conf, **conf_of_format(job.format, job.master), **job.conf}


def on_this_machine(master: str) -> bool:
    """Whether all of Spark runs here, so that the driver only needs loopback."""
    return master.startswith("local") or urlsplit(master).hostname in _LOOPBACK
