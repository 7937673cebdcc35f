"""What the plugin's source and sink promise (`tidegate plugins redis`)."""

from __future__ import annotations

from gateway_core.contract.component import Guarantees

_CREDENTIALS = "TLS, client certificates, user and password (ACL)."
_BINDING = "Tidegate's own (`docs/howto/redis.md`); CloudEvents has none"

SOURCE = Guarantees(
    delivery="at least once",
    acknowledged="XACK follows once the event is stored, or in a bridge once the sink or the dead letter has it.",
    redelivery="After a crash, what was in progress: by the same consumer when it is back, else by another one after "
    "`claim_idle_s`. If the group is deleted, what came since the last look at it, at most 5 s.",
    order="That in which the stream's entries are read, in each worker. Redelivered entries come late.",
    workers="share",
    back_pressure="It reads no more than `prefetch` entries; the others wait in the stream.",
    binding=_BINDING,
    modes=("binary", "structured"),
    credentials=_CREDENTIALS,
)

SINK = Guarantees(
    delivery="at least once",
    acknowledged="Delivered when the server has answered with the entry's id, and `wait_replicas` replicas have it. "
    "Whether it survives a crash of the server, the server's `appendfsync` decides.",
    redelivery="A retry after a lost answer adds the entry again: Redis knows no duplicates.",
    order="Entries are added in the order in which events are sent; a retry comes later.",
    workers="all",
    back_pressure="At most `max_in_flight` attempts, 2000 unless the config says otherwise.",
    binding=_BINDING,
    modes=("binary", "structured"),
    credentials=_CREDENTIALS,
)
