"""What the plugin's source, sink and channel promise (`tidegate plugins nats`)."""

from __future__ import annotations

from gateway_core.contract.component import Guarantees

_CREDENTIALS = "TLS, client certificates, user and password, token, NKey and JWT (with the package `nkeys`)."
_BINDING = "CloudEvents NATS binding 1.0.2; binary mode as in 1.0.3-wip"

SOURCE = Guarantees(
    delivery="at least once",
    acknowledged="The message is acknowledged once its event is stored, or in a bridge once the sink or the dead "
    "letter has it. With `jetstream: false` nothing is acknowledged: at most once.",
    redelivery="What a gateway had not acknowledged when it crashed is redelivered after `ack_wait_s`; after a stop, "
    "at once. Messages that wait for long are reported as in progress and are not redelivered.",
    order="That of the stream, if one gateway with one worker reads; several share the messages, in no order.",
    workers="share",
    back_pressure="It stops fetching at `max_in_flight`; the messages wait in the stream. Core NATS: they are dropped.",
    binding=_BINDING,
    modes=("binary", "structured"),
    credentials=_CREDENTIALS,
)

SINK = Guarantees(
    delivery="at least once",
    acknowledged="Delivered when the stream has stored the message (PubAck). With `jetstream: false`, when the server "
    "has read it: at most once.",
    redelivery="A retry within the stream's duplicate window is dropped by the server, by `Nats-Msg-Id` (source, id, "
    "type and subject).",
    order="That in which events are sent, while none is retried.",
    workers="all",
    back_pressure="At most `max_in_flight` attempts, 2000 unless the config says otherwise.",
    binding=_BINDING,
    modes=("binary", "structured"),
    credentials=_CREDENTIALS,
)

CHANNEL = Guarantees(
    delivery="at least once",
    acknowledged="Stored when the stream has stored the message (PubAck), with `replicas: 3` on two of three servers. "
    "A server writes to its file at once; it calls fsync as its `sync_interval` says, every two minutes by default.",
    redelivery="After a crash, what was not settled is redelivered after `ack_wait_s`; after a stop, at once. Past "
    "events that the stream still has can be replayed to one trigger.",
    order="That of the stream, also after a crash, if one gateway with one worker reads; several share the events, in "
    "no order.",
    workers="share",
    back_pressure="Above `max_queue_bytes`, and while the stream is full, senders get 503.",
    binding=_BINDING,
    modes=("binary", "structured"),
    credentials=_CREDENTIALS,
    deduplicates="yes",
)
