"""What is done with each micro-batch: its rows go to their tables, those that can't to the quarantine table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .job import Job
from .rows import shaped
from .tables import FAULT, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REASON = "reason"


class Batches:
    """The function that a streaming query calls for each batch (`foreachBatch`). A batch that was written in part
    before a crash comes again with the same number and rows; each table knows whether it has it. `quarantined` counts
    the rows that went to quarantine tables."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self.quarantined = 0

    def write(self, events: DataFrame, number: int) -> None:
        """Brings a batch into its tables. What it raises ends the query."""
        from pyspark.sql import functions as f

        job, spark = self._job, events.sparkSession
        rows = shaped(events, job)
        found = table(job, spark, job.table).append(rows, number, {"bad": f.count(FAULT)})
        if found is None or found["bad"]:
            self._quarantine(events, number)

    def _quarantine(self, rows: DataFrame, number: int) -> None:
        from pyspark.sql import functions as f

        bad = rows.where(f.col(FAULT).isNotNull()).withColumn(REASON, f.col(FAULT))
        if bad.isEmpty():
            return
        bad = bad.withColumn(FAULT, f.lit(None).cast("string"))
        place = self._job.quarantine or f"{self._job.table}_quarantine"
        found = table(self._job, rows.sparkSession, place).append(bad, number, {"rows": f.count(REASON)})
        self.quarantined += found["rows"] if found else 0
