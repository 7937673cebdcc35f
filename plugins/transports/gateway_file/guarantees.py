"""What the plugin's sinks promise (`tidegate plugins file`)."""

from __future__ import annotations

from gateway_core.contract.component import Guarantees

_JSON = "CloudEvents JSON format 1.0.2, one event a line"

FILE = Guarantees(
    delivery="at least once",
    acknowledged="Delivered when the line is on disk (`fsync: false`: when the operating system has it).",
    redelivery="After a crash, or after a write that failed half-way.",
    order="The order of attempts.",
    workers="all",
    back_pressure="At most `max_in_flight` attempts; all lines that wait share one write.",
    binding=_JSON,
    modes=("structured",),
    credentials="The rights of the process.",
)

STDOUT = Guarantees(
    delivery="at least once",
    acknowledged="Delivered when the operating system has the line.",
    redelivery="After a crash.",
    order="The order of attempts.",
    workers="one",
    back_pressure="A reader that stops reading delays its trigger.",
    binding=_JSON,
    modes=("structured",),
)
