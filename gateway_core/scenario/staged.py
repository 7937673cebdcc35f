"""A view of the registry whose sources, sinks, channels and dead letters reach nothing outside the process."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..component import BuildContext, ComponentRef
from ..interfaces import ReadingSink
from ..registry import Registry
from .channel import MemoryChannel
from .record import Key
from .sinks import LetterBox, ReaderStandIn, Recorder, ScriptedFarSide
from .stage import Stage


class StagedRegistry(Registry):
    """The same offers as another registry; what is built stands on a stage.

    The real components are built, since constructors reach nothing, and asked what they would send and read. A sink
    that is made of another one (a function's) stays real around the stand-in of that one.
    """

    def __init__(self, real: Registry, stage: Stage) -> None:
        vars(self).update(vars(real))
        self._stage = stage
        self._replaced = 0

    def build(self, ref: ComponentRef, context: BuildContext) -> Any:
        context = replace(context, offline=True)
        if ref.kind in ("sink", "dead_letter"):
            return self._sink(ref, context)
        real = super().build(ref, context)
        if ref.kind == "source":
            self._stage.sources[context.owner] = real
        elif ref.kind == "channel":
            return MemoryChannel(self._stage, context.broker, real)
        return real

    def _sink(self, ref: ComponentRef, context: BuildContext) -> Any:
        outer, self._replaced = self._replaced, 0
        real = super().build(ref, context)
        made_of_others = self._replaced > 0
        self._replaced = outer + 1
        if isinstance(real, ReadingSink):
            return ReaderStandIn(real)
        letters = context.owner.endswith(".dead_letter")
        name = context.trigger or context.broker
        script = self._stage.script(name, letters)
        inner = real if made_of_others else ScriptedFarSide(self._stage, script, real, f"{context.owner} ({ref.name})")
        if letters:
            bridge = context.broker if context.owner.startswith("bridges.") else ""
            return LetterBox(self._stage, bridge, inner, real)
        key = _whose(context)
        return inner if key is None else Recorder(self._stage, key, inner, real)


def _whose(context: BuildContext) -> Key | None:
    """Whose sink is built; None for one inside another component."""
    if context.owner == f"triggers.{context.trigger}.subscriber":
        return "trigger", context.trigger
    return ("bridge", context.broker) if context.owner == f"bridges.{context.broker}.sink" else None
