"""Sources, sinks, channels and dead letters that reach nothing outside the process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gateway_core.contract.component import BuildContext, ComponentRef
from gateway_core.contract.interfaces import ReadingSink

from .channel import MemoryChannel
from .record import Key
from .sinks import FakeReader, RecordingDeadLetter, RecordingSink, ScriptedRemote
from .stage import Stage

Build = Callable[[ComponentRef, BuildContext], Any]


class Staging:
    """Puts doubles on a stage in place of components. It builds the real components, since constructors connect to
    nothing, to find out what they would send and read. A sink that wraps another one (a function's) stays real around
    the double of that one.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._replaced = 0

    def build(
        self, ref: ComponentRef, context: BuildContext, built: Callable[[ComponentRef, BuildContext], Any]
    ) -> Any:
        """What takes a component's place; `built` makes the real one."""
        if ref.kind in ("sink", "dead_letter"):
            return self._sink(ref, context, built)
        real = built(ref, context)
        if ref.kind == "source":
            self._stage.sources[context.place] = real
        elif ref.kind == "channel":
            return MemoryChannel(self._stage, context.broker, real)
        return real

    def _sink(
        self, ref: ComponentRef, context: BuildContext, built: Callable[[ComponentRef, BuildContext], Any]
    ) -> Any:
        outer, self._replaced = self._replaced, 0
        real = built(ref, context)
        made_of_others = self._replaced > 0
        self._replaced = outer + 1
        if isinstance(real, ReadingSink):
            return FakeReader(real)
        section, field = context.place[:1], context.place[2:]
        dead_letters = field == ("dead_letter",)
        name = context.trigger or context.broker
        script = self._stage.script(name, dead_letters)
        inner = real if made_of_others else ScriptedRemote(self._stage, script, real, f"{context.owner} ({ref.name})")
        if dead_letters:
            bridge = context.broker if section == ("bridges",) else ""
            return RecordingDeadLetter(self._stage, bridge, inner, real)
        key = _whose(context)
        return inner if key is None else RecordingSink(self._stage, key, inner, real)


def _whose(context: BuildContext) -> Key | None:
    """The owner of a sink; None for a sink inside another component."""
    match context.place:
        case ("triggers", _, "subscriber"):
            return "trigger", context.trigger
        case ("bridges", _, "sink"):
            return "bridge", context.broker
    return None
