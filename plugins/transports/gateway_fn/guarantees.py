"""What the plugin's source and sink promise (`tidegate plugins fn`)."""

from __future__ import annotations

from gateway_core.contract.component import Guarantees

_BINDING = "CloudEvents protocol of the Fn Project, 0.1 and 1.0"

SOURCE = Guarantees(
    delivery="at most once",
    acknowledged="The function's event becomes the response once it is stored.",
    redelivery="Never by itself: the caller sees the failure and decides. A call that missed its deadline goes to the "
    "dead letter.",
    order="That of a caller which waits for each response.",
    workers="all",
    back_pressure="503 above `max_in_flight` calls.",
    binding=_BINDING,
    modes=("structured",),
    credentials="Those of the function's sink; authenticators for callers.",
)

SINK = Guarantees(
    delivery="at least once",
    acknowledged="Delivered when the function has returned, within its deadline.",
    redelivery="After a failure, until the event's deadline; then it goes to the dead letter.",
    order="As `order` says: by key, by partition, or none.",
    workers="all",
    back_pressure="At most `max_in_flight` attempts.",
    binding=_BINDING,
    modes=("structured",),
    credentials="Those of the function's sink.",
)
