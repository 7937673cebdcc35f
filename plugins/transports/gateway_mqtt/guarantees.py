"""What the plugin's source and sink promise (`tidegate plugins mqtt`)."""

from __future__ import annotations

from gateway_core.contract.component import Guarantees

_CREDENTIALS = "TLS, client certificates, user and password."
_BINDING = "CloudEvents MQTT binding 1.0.2"

SOURCE = Guarantees(
    delivery="at least once",
    acknowledged="PUBACK (PUBREC with QoS 2) is sent once the event is stored, or in a bridge once the sink or the "
    "dead letter has it.",
    redelivery="After a reconnect or a restart the server sends again what was not acknowledged, as long as it keeps "
    "the session (`session_expiry_s`). With `qos: 0`, at most once: it sends nothing again.",
    order="That of the server: of one publisher, topic and QoS. Messages are acknowledged in the order they came.",
    workers="one or share",
    back_pressure="At most `receive_maximum` messages are not acknowledged; the others wait at the server.",
    binding=_BINDING,
    modes=("binary", "structured"),
    credentials=_CREDENTIALS,
)

SINK = Guarantees(
    delivery="at least once",
    acknowledged="Delivered at a PUBACK (PUBCOMP with QoS 2) with a reason code of success.",
    redelivery="After a lost connection, a time-out or a reason code that may pass. With `qos: 0`, at most once: "
    "delivered when it is sent.",
    order="Messages of one topic arrive in the order in which they are sent.",
    workers="all",
    back_pressure="At most `max_in_flight` messages without PUBACK, or the server's receive maximum.",
    binding=_BINDING,
    modes=("binary", "structured"),
    credentials=_CREDENTIALS,
)
