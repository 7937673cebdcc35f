"""What the plugin's source, sink and channel promise (`tidegate plugins kafka`)."""

from __future__ import annotations

from gateway_core.contract.component import Guarantees

_CREDENTIALS = "TLS, client certificates, SASL: PLAIN, SCRAM, OAUTHBEARER."
_BINDING = "CloudEvents Kafka binding 1.0.3"

SOURCE = Guarantees(
    delivery="at least once",
    acknowledged="The offset is committed once all events before it are stored, or in a bridge once the sink or the "
    "dead letter has them.",
    redelivery="After a crash, what came after the last commit (`commit_interval_s`) is read again; also after a "
    "rebalance that takes longer than `drain_s`.",
    order="That of a partition.",
    workers="share",
    back_pressure="It stops fetching; the records wait in the topic.",
    binding=_BINDING,
    modes=("binary", "structured"),
    credentials=_CREDENTIALS,
)

SINK = Guarantees(
    delivery="at least once",
    acknowledged="Delivered when all in-sync replicas have the record (`acks=all`, idempotent producer).",
    redelivery="The client's own retries write a record once. A retry of the gateway, after `delivery_timeout_s`, may "
    "write it again.",
    order="That of a partition: records with the same key keep the order in which they are sent.",
    workers="all",
    back_pressure="At most `max_in_flight` attempts, 2000 unless the config says otherwise.",
    binding=_BINDING,
    modes=("binary", "structured"),
    credentials=_CREDENTIALS,
)

CHANNEL = Guarantees(
    delivery="at least once",
    acknowledged="Stored when all in-sync replicas have the record.",
    redelivery="After a crash, each trigger continues at its last committed offset. Past events that the topic still "
    "has can be replayed to one trigger.",
    order="That of a partition; all events with one record key are in one partition.",
    workers="share",
    back_pressure="Above `max_queue_bytes` senders get 503 until the cluster has accepted some records.",
    binding=_BINDING,
    modes=("binary", "structured"),
    credentials=_CREDENTIALS,
    deduplicates="no",
)
