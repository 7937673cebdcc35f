"""What the plugin's channel promises (`tidegate plugins log`)."""

from __future__ import annotations

from gateway_core.contract.component import Guarantees

CHANNEL = Guarantees(
    delivery="at least once",
    acknowledged="Stored when the event is on disk (`sync: normal`: when the operating system has it).",
    redelivery="After a crash each trigger continues at its cursor, which is at most about 0.05 s old. Past events can "
    "be replayed to one trigger, and a trigger can be set back.",
    order="The order in which events were accepted, in each worker.",
    workers="all",
    back_pressure="Above `max_queue_bytes`, or while the disk is full, senders get 503.",
    binding="Rows with a checksum, in files of its own",
    credentials="The rights of the process.",
    deduplicates="yes",
)
