"""What the plugin's sink promises (`tidegate plugins pull`)."""

from __future__ import annotations

from gateway_core.contract.component import Guarantees

SINK = Guarantees(
    delivery="at least once",
    acknowledged="Delivered when the subscriber has acknowledged the event's lease. A reader of a stream may also "
    "connect again with that lease, or a later one, as the last event that it got.",
    redelivery="After the lease has ended or was released, up to `retry` times. An event that nobody fetches waits.",
    order="As `order` says: with `key` or `partition`, the next event is there once the one before is settled.",
    workers="one",
    back_pressure="At most `max_leased` events are there or leased; the others stay in the channel.",
    binding="Tidegate's own (`docs/howto/pull.md`); CloudEvents has none",
    modes=("structured",),
    credentials="TLS, client certificates, bearer token, origins of web pages.",
)
