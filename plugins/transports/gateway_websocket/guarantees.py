"""What the plugin's source and sink promise (`tidegate plugins websocket`)."""

from __future__ import annotations

from gateway_core.contract.component import Guarantees

_BINDING = "CloudEvents WebSockets binding 1.0.2; acknowledgements by a subprotocol of Tidegate's own"
_PLAIN = "With plain `cloudevents.json`"

SOURCE = Guarantees(
    delivery="at least once",
    acknowledged="With the acknowledging subprotocol, `ack` once the event is stored, or in a bridge once the sink or "
    f"the dead letter has it. {_PLAIN}, never.",
    redelivery="The sender sends again what was not acknowledged when a connection ended. "
    f"{_PLAIN} events arrive at most once: what is on the wire when a connection ends is lost.",
    order="That of each connection.",
    workers="one or share",
    back_pressure="It reads nothing more from a connection with `max_unacknowledged` events under way.",
    binding=_BINDING,
    modes=("structured",),
    credentials="TLS, client certificates, authenticators, bearer tokens, OAuth 2, headers, origins of web pages.",
)

SINK = Guarantees(
    delivery="at least once",
    acknowledged="With the acknowledging subprotocol, delivered when the receiver has acknowledged the event. "
    f"{_PLAIN}, once it is written to the socket.",
    redelivery="What was not acknowledged when a connection ended, or in time, is retried. "
    f"{_PLAIN} events are delivered at most once.",
    order="As `order` says: by key, by partition, or none. A listening sink gives each event to one subscriber.",
    workers="one or share",
    back_pressure="At most `max_in_flight` attempts, 500 unless the config says otherwise; a connection that takes no "
    "more gets no more.",
    binding=_BINDING,
    modes=("structured",),
    credentials="TLS, client certificates, bearer tokens, OAuth 2, header fields, origins of web pages.",
)
