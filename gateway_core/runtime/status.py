"""The status of a gateway's parts."""

from __future__ import annotations

from msgspec.structs import replace

from ..contract.condition import Condition, orphan_condition
from ..contract.config_model import TriggerConfig
from ..contract.status import BridgeStatus, BrokerStatus, TriggerStatus, channel_state
from ..pipeline.bridge import Bridged
from ..pipeline.broker import Broker
from ..pipeline.infos import addresses, delivery_facts, fault_of, held_while_down, source_errors, source_states


def broker_status(broker: Broker) -> BrokerStatus:
    """One broker: its condition, addresses, channel and counts."""
    channel = channel_state(broker.channel_name, broker.channel)
    ready, reason, condition = broker.condition(channel)
    once = channel.details.get("deduplication", {})
    return BrokerStatus(
        name=broker.name,
        ready=bool(ready),
        reason=reason,
        condition=condition,
        ingress=addresses(broker.bound_sources),
        sources=source_states(broker.bound_sources),
        channel=channel,
        accepted=broker.channel.appended,
        refused=broker.refused,
        duplicates=once.get("duplicates", 0),
        conflicts=once.get("conflicts", 0),
        deduplicate_window_s=once.get("window_s"),
        keys=once.get("keys"),
        unrouted=channel.unrouted,
        failed=broker.failed,
        dead_lettered=broker.dead_letters.written,
        dead_lettered_by_stage=dict(broker.dead_letters.written_by_stage),
        accept=broker.meter.accept.status() if broker.meter else None,
    )


def orphan_status(name: str, config: TriggerConfig) -> TriggerStatus:
    """The status of a trigger whose broker does not exist (yet)."""
    _, reason, condition = orphan_condition(config)
    return TriggerStatus(name=name, broker=config.broker, ready=False, reason=reason, condition=condition, lag=0)


def bridge_condition(bridged: Bridged, running: bool) -> Condition:
    """Whether it is ready (an event that comes now can be carried to its sink), else why not."""
    s = bridged.bridge.subscription
    if fault := next(iter(bridged.bridge.faults.values()), ""):
        return Condition(False, fault, "ComponentFailed")
    if s.blocked:
        return Condition(False, s.failures.last or "blocked", "DeadLetterFails")
    if s.holding:
        return Condition(False, held_while_down(s), "HeldWhileDown")
    if s.failures.many:
        return Condition(False, s.failures.last or "failing", "SinkFails")
    if s.short:
        return Condition(False, s.failures.last or "this machine is short of resources", "OutOfResources")
    if not running:
        return Condition(False, "not started", "NotStarted")
    if why := fault_of(s.sink):
        return Condition(False, why, "SinkFails")
    error = source_errors([bridged.bound_source]).get(0)
    return Condition(False, error, "SourceFails") if error else Condition(True, "", "Carrying")


def takes_events(bridged: Bridged, running: bool) -> bool:
    """Whether the bridge's source works; the state of its sink does not matter here."""
    return running and not source_errors([bridged.bound_source]) and "sink" not in bridged.bridge.faults


def with_failure(entry: BrokerStatus, failure: str) -> BrokerStatus:
    """The entry of a broker of which a part could not be started, for this reason."""
    return replace(entry, ready=False, reason=failure, condition="StartFailed") if failure else entry


def bridge_status(bridged: Bridged, running: bool) -> BridgeStatus:
    """One bridge: its condition, ends and counts."""
    bridge, s = bridged.bridge, bridged.bridge.subscription
    sources = source_states([bridged.bound_source])
    ready, reason, condition = bridge_condition(bridged, running)
    return BridgeStatus(
        name=bridged.name,
        ready=bool(ready),
        reason=reason,
        condition=condition,
        source=" ".join(addresses([bridged.bound_source])),
        sources=sources,
        sink=s.sink.address,
        dead_letter=bridged.dead_letter.address if bridged.dead_letter else None,
        accepted=bridge.accepted,
        unwanted=bridge.unwanted,
        refused=bridge.refused,
        failed=bridge.failed,
        lag=bridge.lag(),
        **delivery_facts(s, bridged.meter),
    )
