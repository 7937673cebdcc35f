"""What the plugin's source and sink promise (`tidegate plugins rabbitmq`)."""

from __future__ import annotations

from gateway_core.contract.component import Guarantees

_CREDENTIALS = "TLS, client certificates (EXTERNAL), user and password (PLAIN)."
_BINDING = "AMQP 0-9-1 with the names of CloudEvents AMQP binding 1.0.2"

SOURCE = Guarantees(
    delivery="at least once",
    acknowledged="The message is acknowledged once its event is stored, or in a bridge once the sink or the dead "
    "letter has it.",
    redelivery="After a crash, a lost connection, or the server's `consumer_timeout`: all messages that were not "
    "acknowledged, at most `prefetch`.",
    order="That of the queue, with one consumer (`single_active_consumer`) and without redelivery.",
    workers="share",
    back_pressure="At `prefetch` unacknowledged messages the server sends no more; they wait in the queue.",
    binding=f"{_BINDING}; also reads Knative's",
    modes=("binary", "structured"),
    credentials=_CREDENTIALS,
)

SINK = Guarantees(
    delivery="at least once",
    acknowledged="Delivered when the server has confirmed the message: a quorum queue has it on most nodes, a classic "
    "queue on disk. A message that reaches no queue has failed, unless `mandatory: false`.",
    redelivery="After a retry: the message may be there already, if its confirm was lost or late.",
    order="The order in which messages are sent; a retry comes later.",
    workers="all",
    back_pressure="At most `max_in_flight` attempts, 2000 unless the config says otherwise. While the server blocks "
    "publishers (`connection.blocked`) attempts wait, and time out.",
    binding=_BINDING,
    modes=("binary", "structured"),
    credentials=_CREDENTIALS,
)
