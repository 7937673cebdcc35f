"""Every name of aiokafka that is not public and that this folder uses, with what it expects of it.

`tests/kafka/test_kafka_private_names.py` compares each with the aiokafka that is installed, and this table with the
code.
"""

from __future__ import annotations

from typing import NamedTuple

KNOWN_VERSIONS = ("0.14.",)
"""What the versions of aiokafka start with for which the private names do what this folder expects."""


class PrivateName(NamedTuple):
    """`owner` is a module and, for a member, a class in it: `aiokafka.conn:AIOKafkaConnection`. `shape` is the
    parameters of a function or of a class's constructor, `value` for any other object of a module, or the type of an
    attribute. `files` are the modules of this folder that use it."""

    owner: str
    name: str
    shape: str
    files: tuple[str, ...]
    why: str


_CONNECTION = "aiokafka.conn:AIOKafkaConnection"
_CLIENT = "aiokafka.client:AIOKafkaClient"
_CLUSTER = "aiokafka.cluster:ClusterMetadata"
_PRODUCER = "aiokafka.producer.producer:AIOKafkaProducer"
_SENDER = "aiokafka.producer.sender:Sender"
_HANDLER = "aiokafka.producer.sender:SendProduceReqHandler"
_ACCUMULATOR = "aiokafka.producer.message_accumulator:MessageAccumulator"
_BATCH = "aiokafka.producer.message_accumulator:MessageBatch"
_CONSUMER = "aiokafka.consumer.consumer:AIOKafkaConsumer"
_COORDINATOR = "aiokafka.consumer.group_coordinator:GroupCoordinator"
_ASSIGNMENT = "aiokafka.consumer.subscription_state:Assignment"
_STATE = "aiokafka.consumer.subscription_state:TopicPartitionState"
_RECORDS = "aiokafka.record.memory_records:_MemoryRecordsPy"
_RECORD_BATCH = "aiokafka.record.default_records:_DefaultRecordBatchPy"

_CUT = "a connection that was just closed must be noticed as it is written to"
_REASON = "aiokafka only logs why it can't connect"
_DIRECT = "a request is written in the same turn of the event loop, with aiokafka's sequence numbers and retries"
_ODD = "a record whose header names are not UTF-8 would hold up its partition"
_TOPICS = "lookups must not create topics, and must tell of topic ids"
_COMMITS = "commits of expelled members and for deleted topics"
_START = "the metadata of a committed offset says which topic it belongs to"
_PASSED = "offsets behind aborted records can be committed"
_CLOSE = "closes in bounded time, and leaves the group"
_ADMIN = "aiokafka has no public function, or it tells too little"

NAMES = (
    # -- connections
    PrivateName(
        "aiokafka.conn",
        "AIOKafkaConnection",
        "host, port, client_id, request_timeout_ms, ssl_context, security_protocol, max_idle_ms, on_close,"
        " sasl_mechanism, sasl_plain_password, sasl_plain_username, sasl_kerberos_service_name,"
        " sasl_kerberos_domain_name, sasl_oauth_token_provider",
        ("connections",),
        _CUT,
    ),
    PrivateName(_CONNECTION, "connect", "", ("connections",), _CUT),
    PrivateName(_CONNECTION, "connected", "", ("direct_sender",), _DIRECT),
    PrivateName(_CONNECTION, "send", "request, expect_response", ("connections", "direct_sender", "metadata"), _CUT),
    PrivateName(_CONNECTION, "_send_sasl_token", "payload, expect_response", ("connections",), _CUT),
    PrivateName(_CONNECTION, "close", "reason, exc", ("connections", "direct_sender", "metadata"), _CUT),
    PrivateName(_CONNECTION, "_requests", "deque", ("direct_sender",), _DIRECT),
    PrivateName("aiokafka.conn", "CloseReason", "value", ("connections", "direct_sender"), _CUT),
    PrivateName("aiokafka.conn", "collect_hosts", "hosts, randomize", ("connections",), _REASON),
    PrivateName(
        "aiokafka.protocol.metadata", "MetadataRequest", "topics, allow_auto_topic_creation", ("connections",), _REASON
    ),
    # -- client and cluster
    PrivateName("aiokafka.client", "ConnectionGroup", "value", ("direct_sender",), _DIRECT),
    PrivateName(_CLIENT, "bootstrap", "", ("connections",), _CUT),
    PrivateName(_CLIENT, "_get_conn", "node_id, group, no_hint", ("connections", "metadata"), _CUT),
    PrivateName(_CLIENT, "_conns", "dict", ("direct_sender", "metadata"), _DIRECT),
    PrivateName(_CLIENT, "_metadata_update", "cluster_metadata, topics", ("metadata",), _TOPICS),
    PrivateName(_CLIENT, "_maybe_wait_metadata", "", ("direct_sender",), _DIRECT),
    PrivateName(_CLUSTER, "update_metadata", "metadata", ("metadata",), _TOPICS),
    PrivateName(_CLUSTER, "failed_update", "exception", ("metadata",), _TOPICS),
    # -- producer
    PrivateName(_PRODUCER, "_sender", "Sender", ("direct_sender", "producers"), _DIRECT),
    PrivateName(_PRODUCER, "_message_accumulator", "MessageAccumulator", ("direct_sender",), _DIRECT),
    PrivateName(_PRODUCER, "_request_timeout_ms", "int", ("direct_sender",), _DIRECT),
    PrivateName(_SENDER, "sender_task", "property", ("direct_sender", "producers"), _DIRECT),
    PrivateName(_SENDER, "close", "", ("producers",), _CLOSE),
    PrivateName(_SENDER, "_acks", "int", ("direct_sender",), _DIRECT),
    PrivateName(_SENDER, "_request_timeout_ms", "int", ("direct_sender",), _DIRECT),
    PrivateName(_SENDER, "_in_flight", "set", ("direct_sender",), _DIRECT),
    PrivateName(_SENDER, "_muted_partitions", "set", ("direct_sender",), _DIRECT),
    PrivateName(_SENDER, "_txn_manager", "TransactionManager", ("direct_sender",), _DIRECT),
    PrivateName("aiokafka.producer.transaction_manager:TransactionManager", "has_pid", "", ("direct_sender",), _DIRECT),
    PrivateName("aiokafka.producer.sender", "SendProduceReqHandler", "sender, batches", ("direct_sender",), _DIRECT),
    PrivateName(_HANDLER, "do", "node_id", ("direct_sender",), _DIRECT),
    PrivateName(_HANDLER, "_client", "AIOKafkaClient", ("direct_sender",), _DIRECT),
    PrivateName(_ACCUMULATOR, "_batches", "defaultdict", ("direct_sender",), _DIRECT),
    PrivateName(_ACCUMULATOR, "_closed", "bool", ("direct_sender",), _DIRECT),
    PrivateName(_ACCUMULATOR, "_batch_ttl", "float", ("direct_sender",), _DIRECT),
    PrivateName(_ACCUMULATOR, "_linger_time", "float", ("direct_sender",), _DIRECT),
    PrivateName(_ACCUMULATOR, "_pop_batch", "tp", ("direct_sender",), _DIRECT),
    PrivateName(_ACCUMULATOR, "waiter", "", ("direct_sender",), _DIRECT),
    PrivateName(
        "aiokafka.producer.message_accumulator",
        "MessageBatch",
        "tp, builder, ttl, linger_time",
        ("direct_sender",),
        _DIRECT,
    ),
    PrivateName(_BATCH, "done_noack", "", ("direct_sender",), _DIRECT),
    PrivateName(_BATCH, "failure", "exception", ("direct_sender",), _DIRECT),
    PrivateName(_BATCH, "get_data_buffer", "", ("direct_sender",), _DIRECT),
    PrivateName(_BATCH, "future", "Future", ("direct_sender",), _DIRECT),
    PrivateName(
        "aiokafka.protocol.produce",
        "ProduceRequest",
        "transactional_id, required_acks, timeout, topics",
        ("direct_sender",),
        _DIRECT,
    ),
    # -- consumer
    PrivateName(_CONSUMER, "_client", "AIOKafkaClient", ("consumers", "ways"), _TOPICS),
    PrivateName(_CONSUMER, "_coordinator", "GroupCoordinator", ("consumers",), _COMMITS),
    PrivateName(_CONSUMER, "_fetcher", "Fetcher", ("consumers", "lenient"), _ODD),
    PrivateName(_CONSUMER, "_subscription", "SubscriptionState", ("consumers",), _PASSED),
    PrivateName(
        "aiokafka.consumer.subscription_state:SubscriptionState", "subscription", "property", ("consumers",), _PASSED
    ),
    PrivateName("aiokafka.consumer.subscription_state:Subscription", "assignment", "property", ("consumers",), _PASSED),
    PrivateName(_ASSIGNMENT, "state_value", "tp", ("consumers",), _PASSED),
    PrivateName(_ASSIGNMENT, "active", "property", ("consumers",), _COMMITS),
    PrivateName(_STATE, "position", "property", ("consumers",), _PASSED),
    PrivateName(_STATE, "has_valid_position", "property", ("consumers",), _PASSED),
    PrivateName(
        "aiokafka.consumer.fetcher:Fetcher", "_proc_fetch_request", "assignment, node_id, request", ("lenient",), _ODD
    ),
    PrivateName("aiokafka.consumer.fetcher:Fetcher", "close", "", ("consumers",), _CLOSE),
    PrivateName(_COORDINATOR, "_do_commit_offsets", "assignment, offsets", ("consumers",), _COMMITS),
    PrivateName(_COORDINATOR, "generation", "int", ("consumers",), _COMMITS),
    PrivateName(_COORDINATOR, "fetch_committed_offsets", "partitions", ("consumers",), _START),
    PrivateName(_COORDINATOR, "_coordination_task", "Task", ("consumers",), _CLOSE),
    PrivateName(_COORDINATOR, "_heartbeat_task", "NoneType", ("consumers",), _CLOSE),
    PrivateName(_COORDINATOR, "_commit_refresh_task", "NoneType", ("consumers",), _CLOSE),
    PrivateName(_COORDINATOR, "_maybe_leave_group", "", ("consumers",), _CLOSE),
    PrivateName(
        "aiokafka.coordinator.assignors.sticky.sticky_assignor",
        "StickyPartitionAssignor",
        "",
        ("consumers",),
        "most partitions stay where they are in a rebalance",
    ),
    # -- records
    PrivateName("aiokafka.record.memory_records", "MemoryRecords", "value", ("lenient",), _ODD),
    PrivateName("aiokafka.record.memory_records", "_MemoryRecordsPy", "bytes_data", ("lenient",), _ODD),
    PrivateName(_RECORDS, "next_batch", "_min_slice, _magic_offset", ("lenient",), _ODD),
    PrivateName(_RECORDS, "_next_slice", "memoryview", ("lenient",), _ODD),
    PrivateName("aiokafka.record.default_records", "DefaultRecordBatch", "value", ("lenient",), _ODD),
    PrivateName("aiokafka.record.default_records", "_DefaultRecordBatchPy", "buffer", ("lenient",), _ODD),
    PrivateName(_RECORD_BATCH, "_maybe_uncompress", "", ("lenient",), _ODD),
    PrivateName(_RECORD_BATCH, "_buffer", "bytearray", ("lenient",), _ODD),
    # -- requests
    PrivateName("aiokafka.protocol.api", "Request", "value", ("metadata",), _TOPICS),
    PrivateName("aiokafka.protocol.api", "RequestStruct", "value", ("metadata",), _TOPICS),
    PrivateName("aiokafka.protocol.api", "Response", "value", ("metadata",), _TOPICS),
    PrivateName("aiokafka.protocol.metadata", "MetadataRequest_v4", "value", ("metadata",), _TOPICS),
    PrivateName("aiokafka.protocol.metadata", "MetadataRequest_v5", "value", ("metadata",), _TOPICS),
    *(
        PrivateName("aiokafka.protocol.types", name, "value", ("metadata",), _TOPICS)
        for name in ("Boolean", "CompactArray", "CompactString", "Int16", "Int32", "Int64", "Schema", "TaggedFields")
    ),
    *(
        PrivateName(f"aiokafka.protocol.{module}", name, shape, ("requests",), _ADMIN)
        for module, name, shape in (
            ("admin", "CreateTopicsRequest", "create_topic_requests, timeout, validate_only"),
            ("admin", "DeleteGroupsRequest", "group_names"),
            ("admin", "DescribeGroupsRequest", "groups, include_authorized_operations"),
            ("admin", "ListGroupsRequest", ""),
            (
                "commit",
                "OffsetCommitRequest",
                "consumer_group, consumer_group_generation_id, consumer_id, retention_time, topics",
            ),
            ("commit", "OffsetFetchRequest", "consumer_group, partitions"),
            ("coordination", "FindCoordinatorRequest", "coordinator_key, coordinator_type"),
            ("offset", "OffsetRequest", "replica_id, isolation_level, topics"),
        )
    ),
)
