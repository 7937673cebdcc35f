"""Samples conditions, to know the time of their last change."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel

from gateway_core.contract.clock import Clock
from gateway_core.contract.condition import Condition
from gateway_core.contract.moments import stamped

from . import policies
from .generations import RUNNING, SECTIONS, Generations, Key, singular

if TYPE_CHECKING:
    from gateway_core.contract.services import GatewayView

log = logging.getLogger("tidegate")

LOOK_EVERY_S = 1.0
SLICE = 100
MOST_OF = 30
"""With very many entries the looks are rarer, so that all of them take less than a part in so many of the time."""
READY = "Ready"
_STARTING = "ReaderStarting"


@dataclass(frozen=True, slots=True)
class SeenCondition:
    """A condition and when its `ready` last changed (Unix time)."""

    condition: Condition
    since_ns: int

    def document(self, type: str = READY) -> dict[str, str]:
        """As in Kubernetes."""
        words = {True: "True", False: "False", None: "Unknown"}
        ready, message, reason = self.condition
        return {
            "type": type,
            "status": words[ready],
            "reason": reason,
            "message": message,
            "lastTransitionTime": timestamp(self.since_ns),
        }


def timestamp(ns: int) -> str:
    """RFC 3339, to the millisecond."""
    return f"{stamped(ns)[:23]}Z"


class Conditions:
    """The conditions of everything in a gateway's config. A change is seen within a second, or at the next request."""

    def __init__(self, gateway: GatewayView, generations: Generations, clock: Clock) -> None:
        self._gateway = gateway
        self._generations = generations
        self._clock = clock
        self._seen: dict[Key, SeenCondition] = {}
        self._further: dict[tuple[Key, str], SeenCondition] = {}

    async def watch(self) -> None:
        """Samples periodically. Thousands of entries are sampled in slices, so that events don't wait."""
        while True:
            began = time.perf_counter()
            try:
                for number, (key, condition) in enumerate(self._look(), 1):
                    self._note(key, condition)
                    if number % SLICE == 0:
                        await anyio.lowlevel.checkpoint()
            except Exception:  # a component whose condition raises
                log.exception("the conditions can't be read")
            await anyio.sleep(max(LOOK_EVERY_S, MOST_OF * (time.perf_counter() - began)))

    def observe(self, section: str, name: str, others: Mapping[Key, Condition]) -> None:
        """Samples one condition; `others` are those of other workers (`others`)."""
        self._note((section, name), self._whole(section, name, others))

    def observe_all(self) -> None:
        """Samples all conditions once."""
        for key, condition in self._look():
            self._note(key, condition)

    def _note(self, key: Key, condition: Condition) -> None:
        known = self._seen.get(key)
        if known is None or known.condition.ready is not condition.ready:
            self._seen[key] = SeenCondition(condition, self._clock.now_ns())
            self._tell(key, condition, known)
        elif known.condition != condition:
            if known.condition.reason == _STARTING:
                self._tell(key, condition, known)
            self._seen[key] = SeenCondition(condition, known.since_ns)

    def _tell(self, key: Key, condition: Condition, before: SeenCondition | None) -> None:
        """Logs changes of brokers, bridges and readers; triggers log their own deliveries. During a planned stop it
        logs nothing."""
        if self._gateway.stopping:
            return
        section, name = key
        if section == "triggers" and not self._reads(name):
            return
        what = f"{singular(section)} {name}"
        started = before is not None and before.condition.reason == _STARTING
        if condition.ready is False:
            level = logging.INFO if condition.reason == _STARTING else logging.ERROR
            log.log(level, "%s is not ready: %s (%s)", what, condition.message, condition.reason)
        elif condition.ready and started:
            log.info("%s is ready", what)
        elif condition.ready and before is not None and before.condition.ready is False:
            log.warning("%s is ready again", what)

    def _reads(self, trigger: str) -> bool:
        """Whether this worker runs its reader."""
        found = self._gateway.topology.triggers.get(trigger)
        return self._gateway.worker == 0 and found is not None and found.reads

    def of(self, section: str, name: str) -> SeenCondition:
        """The condition `Ready` as last seen."""
        return self._seen[section, name]

    def documents(self, section: str, name: str) -> list[dict[str, str]]:
        """All conditions: `Ready`, and those that say more."""
        key = (section, name)
        return [self._seen[key].document(), *(self._noted(key, *more).document(more[0]) for more in self._more(key))]

    def _more(self, key: Key) -> Iterator[policies.Typed]:
        section, name = key
        config = self._gateway.config
        if section == policies.POLICIES and (policy := config.section(section).get(name)) is not None:
            yield from policies.of_policy(policy, config)
        elif section == "brokers" and name in config.brokers:
            yield policies.of_broker(name, config)

    def _noted(self, key: Key, type: str, condition: Condition) -> SeenCondition:
        before = self._further.get((key, type))
        same = before is not None and before.condition.ready is condition.ready
        since_ns = before.since_ns if before is not None and same else self._clock.now_ns()
        if before is None:  # it holds since the entry runs
            since_ns = self._seen[key].since_ns
        seen = self._further[key, type] = SeenCondition(condition, since_ns)
        return seen

    def _look(self) -> Iterator[tuple[Key, Condition]]:
        others = self.others()
        names = {section: self._generations.names(section) for section in SECTIONS}
        if len(self._seen) > sum(map(len, names.values())):  # those of the last look are all in there
            for key in self._seen.keys() - {(section, name) for section in SECTIONS for name in names[section]}:
                self._seen.pop(key, None)
                for type in (policies.AUTHENTICATION, policies.SUBJECTS, policies.OF_BROKER):
                    self._further.pop((key, type), None)
        for section in SECTIONS:
            for name in names[section]:
                yield (section, name), self._whole(section, name, others)

    def others(self) -> Mapping[Key, Condition]:
        """What is not ready in other workers."""
        return {
            (section, entry.name): Condition(False, entry.reason, entry.condition)
            for status in self._gateway.others()
            for section in RUNNING
            for entry in status.entries(section)
            if not entry.ready
        }

    def _whole(self, section: str, name: str, others: Mapping[Key, Condition]) -> Condition:
        """The condition in this worker, or in one of the `others` that is worse."""
        condition = self._mine(section, name)
        return others.get((section, name), condition) if condition.ready else condition

    def _mine(self, section: str, name: str) -> Condition:
        """The condition in this worker."""
        gateway = self._gateway
        if gateway.started and section == policies.POLICIES:
            policy = gateway.config.section(section).get(name)
            if policy is not None:
                return policies.ready(policy, gateway.config)
        return gateway.condition(section, name)
