"""Runs one scenario: the real parts of a gateway on a fake clock."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway_cloudevents import event_json

from gateway_core.config.registry import Registry as CoreRegistry
from gateway_core.contract.capabilities import Reading
from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.configs import Registry
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
from gateway_core.runtime.build import Built
from gateway_core.runtime.offline import OfflineRegistry, build_with

from .inputs import messages
from .model import ScenarioConfig, SendConfig
from .replays import replay
from .stage import ScenarioError, Stage
from .staged import Staging

LONGEST_S = 172_800.0  # retries take a day by default


@dataclass(slots=True)
class Played:
    """The result of a run."""

    stage: Stage
    built: Built


def play(config: GatewayConfig, registry: Registry, scenario: ScenarioConfig, folder: Path) -> Played:
    """Runs a scenario to its end. Its files are relative to `folder`. Raises `StartError` if the config can't be built,
    and `ScenarioError`."""
    stage = Stage(scenario)
    assert isinstance(registry, CoreRegistry)
    built = build_with(config, OfflineRegistry(registry, Staging(stage).build), stage.clock)
    for trigger in built.triggers.values():
        trigger.attach()
    for subscription in built.subscriptions():
        subscription.draw = lambda: scenario.jitter
    number = replays = 1
    for send in scenario.events:
        _run(stage, send.at_s or 0.0)
        if send.replay is not None:
            replay(stage, built.triggers, registry, send.replay, replays)
            replays += 1
            continue
        for message in messages(send, number, folder):
            _send(stage, built, _target(send, config), message)
            number += 1
        _run(stage, stage.now_s)
    _run(stage, scenario.run_for_s)
    if stage.fault:
        raise ScenarioError(stage.fault)
    return Played(stage, built)


def _run(stage: Stage, until_s: float | None) -> None:
    """Advances the clock: to this time, or until nothing is left to do."""
    clock = stage.clock
    if until_s is not None:
        clock.advance(max(0.0, until_s - clock.monotonic()))
        return
    while (wait := clock.next_timer()) is not None and clock.monotonic() + wait <= LONGEST_S:
        clock.advance(wait)


def _target(send: SendConfig, config: GatewayConfig) -> str:
    names = [*config.brokers, *config.bridges]
    if send.to:
        if send.to not in names:
            raise ScenarioError(f"events: to: there is no broker or bridge {send.to!r}; there are {', '.join(names)}")
        return send.to
    if "default" in names:
        return "default"
    if len(names) != 1:
        raise ScenarioError(f"events: `to` is missing; it names a broker or bridge: {', '.join(names)}")
    return names[0]


def _send(stage: Stage, built: Built, to: str, message: Message) -> None:
    mine = [source for place, source in stage.sources.items() if place[1:2] == (to,)]
    sources = [source for source in mine if isinstance(source, Reading)]
    try:
        events = sources[0].read(message) if sources else [_as_published(message, to)]
    except Refused as e:
        stage.refused(to, e)
        return
    for event in events:
        event.received_ns = stage.clock.now_ns()
    if to in built.brokers:
        _into_broker(stage, to, events)
    else:
        _into_bridge(stage, built.bridges[to].bridge, to, events)


def _as_published(message: Message, to: str) -> Event:
    """The event for a source that can't preview its input: the one that it would publish."""
    try:
        event = event_json.load(message.body or b"")
    except ValueError as e:
        raise ScenarioError(f"{to} has no ingress that reads messages: send it an `event` ({e})") from e
    event.key = message.key
    return event


def _into_broker(stage: Stage, name: str, events: list[Event]) -> None:
    def done(error: BaseException | None) -> None:
        if error is not None:
            stage.refused(name, error if isinstance(error, Refused) else Refused(str(error), status=503))

    stage.channels[name].append(events, done)


def _into_bridge(stage: Stage, bridge: Any, name: str, events: list[Event]) -> None:
    deliveries = [stage.filtered(stage.arrived(name, event), ("bridge", name), bridge.filter) for event in events]

    def done(error: BaseException | None) -> None:
        for delivery in deliveries:
            if error is not None and delivery.state == "waiting":
                delivery.returned = str(error)

    bridge.accept(events, done)
