"""What the source promises (`tidegate plugins schedule`)."""

from __future__ import annotations

from gateway_core.contract.component import Guarantees, OwnMetric

SOURCE = Guarantees(
    delivery="at least once",
    acknowledged="A run is remembered once its event is stored; in a bridge, once the sink or the dead letter has it.",
    redelivery="A crash between the two makes the event of one run twice, with the same `source` and `id`.",
    order="That of the planned times.",
    workers="one",
    back_pressure="A run whose event can't be stored is tried again until it can; later ones follow.",
    binding="None: it makes its events (`docs/howto/schedule-events.md`)",
)

METRICS = (
    OwnMetric("tidegate_schedule_runs_total", "counter", "Runs whose event was handed over."),
    OwnMetric(
        "tidegate_schedule_missed_total", "counter", "Times at which a schedule noticed that it had missed runs."
    ),
)
