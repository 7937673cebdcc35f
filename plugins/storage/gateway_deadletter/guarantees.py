"""What the plugin's sink promises (`tidegate plugins deadletter`)."""

from __future__ import annotations

from gateway_core.contract.component import Guarantees

SINK = Guarantees(
    delivery="at least once",
    acknowledged="Delivered when the dead letter is on disk (`fsync: false`: when the operating system has it).",
    redelivery="After a crash, or after a write that failed half-way.",
    order="The order in which events failed.",
    workers="all",
    back_pressure="While it can't be written, the trigger is blocked and keeps its events.",
    binding="CloudEvents JSON format 1.0.2, one event a line",
    modes=("structured",),
    credentials="The rights of the process.",
)
