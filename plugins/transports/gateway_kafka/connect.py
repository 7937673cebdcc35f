"""Makes producers and consumers of the configured client library, and turns faults of the cluster into start errors."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import StartError

from .client import Begins, Consumer, KafkaClient, KafkaFault, Member, Producer
from .client_config import KafkaConfig, KafkaProducerConfig


def _client(config: KafkaConfig, context: BuildContext) -> KafkaClient:
    made = context.build(config.client, "client")
    if not isinstance(made, KafkaClient):
        raise StartError(f"{context.owner}.client: {config.client.name!r} is not a client of Kafka")
    return made


def producer(config: KafkaProducerConfig, context: BuildContext) -> Producer:
    """A producer of the configured client library. Raises `StartError` if that is not installed."""
    return _client(config, context).producer(config)


def consumer(
    config: KafkaConfig,
    context: BuildContext,
    *,
    group: str,
    topics: Sequence[str],
    member: Member,
    max_poll_records: int,
    session_timeout_s: float,
    begins: Begins = MappingProxyType({}),
) -> Consumer:
    """A consumer of the configured client library. It commits `begins` along with its offsets. Raises `StartError` if
    the library is not installed."""
    return _client(config, context).consumer(
        config,
        group=group,
        topics=topics,
        member=member,
        max_poll_records=max_poll_records,
        session_timeout_s=session_timeout_s,
        clock=context.clock,
        begins=begins,
    )


def start_error(owner: str, config: KafkaConfig, fault: KafkaFault) -> StartError:
    """The fault as a `StartError` that names the place in the config."""
    where = f"Kafka at {','.join(config.bootstrap)}: "
    return StartError(f"{owner}: {where}{str(fault).removeprefix(where)}")
