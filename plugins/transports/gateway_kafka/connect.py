"""Chooses the client library, and turns faults of the cluster into start errors."""

from __future__ import annotations

from types import MappingProxyType

from gateway_core.contract.clock import Clock
from gateway_core.contract.errors import StartError

from .client import Begins, Consumer, KafkaFault, Member, Producer
from .client_config import KafkaConfig, KafkaProducerConfig


def producer(config: KafkaProducerConfig) -> Producer:
    """A producer of the configured client library."""
    if config.client == "confluent":
        from .confluent.producer import ConfluentProducer

        return ConfluentProducer(config)
    from .aio.producer import AioProducer

    return AioProducer(config)


def consumer(
    config: KafkaConfig,
    *,
    group: str,
    topics: list[str],
    member: Member,
    max_poll_records: int,
    session_timeout_s: float,
    clock: Clock,
    begins: Begins = MappingProxyType({}),
) -> Consumer:
    """A consumer of the configured client library. It commits `begins` along with its offsets."""
    if config.client == "confluent":
        from .confluent.consumer import ConfluentConsumer as Chosen
    else:
        from .aio.consumer import AioConsumer as Chosen  # type: ignore[assignment]
    return Chosen(
        config,
        group=group,
        topics=topics,
        member=member,
        max_poll_records=max_poll_records,
        session_timeout_s=session_timeout_s,
        clock=clock,
        begins=begins,
    )


def start_error(owner: str, config: KafkaConfig, fault: KafkaFault) -> StartError:
    """The fault as a `StartError` that names the place in the config."""
    where = f"Kafka at {','.join(config.bootstrap)}: "
    return StartError(f"{owner}: {where}{str(fault).removeprefix(where)}")
