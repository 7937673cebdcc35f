"""What the plugin's sink promises (`tidegate plugins spark`)."""

from __future__ import annotations

from gateway_core.contract.component import Guarantees

SINK = Guarantees(
    delivery="exactly once",
    acknowledged="Delivered when the micro-batch with the event is committed to the table.",
    redelivery="After a crash of the gateway or of Spark the batch is finished, or repeated under the same number.",
    order="Batches follow the order of the channel; within a batch there is none.",
    workers="one",
    back_pressure="At most `max_events_per_batch` events a batch; the rest waits in the channel.",
    binding="Rows of a table: docs/reference/spark-tables.md",
    credentials="Those of Spark and of the storage (`conf`).",
)
