"""Spark settings that follow from a job: the same in the gateway's own process and in a job that was submitted."""

from __future__ import annotations

from urllib.parse import urlsplit

from .job import Job
from .tables.conf import conf_of_format
from .tables.owner import local_path

_LOOPBACK = ("localhost", "127.0.0.1", "::1")

# The status store keeps what the web interface shows, and is there without it as well: a query for months makes a job
# for each batch, so it keeps few.
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

# Spark's own choice starts some ten processes (chmod, stat) for each small file on a local disk: two thirds of the time
# of a small batch. This one renames as atomically there, and two writers are kept apart by our locks.
_LOCAL_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

# The JVM leaves methods above 8,000 bytes of bytecode to its interpreter. What Spark makes of a whole stage of ours may
# be longer, and takes thrice the time then; with this limit it is cut up instead.
COMPILED = {"spark.sql.codegen.hugeMethodLimit": "8000"}


def conf_of(job: Job) -> dict[str, str]:
    """The settings of a job's session but for its jars, master and memory; what the user set is over ours."""
    conf = {
        **_SMALL,
        **COMPILED,
        # on loopback, by SPARK_LOCAL_IP; elsewhere it would be open to the network, which is for the user to say
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
    """Whether all of Spark runs here, and the driver needs no address but loopback."""
    return master.startswith("local") or urlsplit(master).hostname in _LOOPBACK
