"""Explores all that may happen in a small world: breadth first over every interleaving of its actions, each state once.

A world runs the product's own code as its transitions, so its state can't be copied. It is made again from the actions
that led to it, which costs less than a copy would. Since the search is breadth first, the trace of a violation is one
of the shortest.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

Action = tuple[Hashable, ...]
"""What happens: a word, then who or what it happens to."""


class World(Protocol):
    """A world at its beginning, and after each action that it was given."""

    def actions(self) -> Sequence[Action]:
        """What may happen now, always in the same order."""

    def apply(self, action: Action) -> None:
        """Lets it happen. Raises `Violation` if something does not hold then."""

    def state(self) -> Hashable:
        """All that matters for what may happen later."""

    def end(self) -> None:
        """Called where nothing can happen any more. Raises `Violation` if that must not be."""


class Violation(Exception):
    """A promise is broken."""


@dataclass(frozen=True)
class Explored:
    """What a search has seen: `states`, `transitions` between them, the longest path (`depth`), and the promise that is
    `broken` after the actions of `trace` (None and empty if all hold)."""

    states: int
    transitions: int
    depth: int
    broken: str | None = None
    trace: tuple[Action, ...] = ()

    def story(self) -> str:
        """What happened, a line for each action."""
        steps = [f"{n:3}. {' '.join(map(str, action))}" for n, action in enumerate(self.trace, 1)]
        return "\n".join([*steps, f"  => {self.broken}"])


class TooManyStates(Exception):
    """The world is not as small as it should be."""


def explore(make: Callable[[], World], most_states: int = 200_000) -> Explored:
    """Looks at all states that can be reached. Ends at the first violation. Raises `TooManyStates`."""
    seen = {make().state()}
    frontier: list[tuple[Action, ...]] = [()]
    transitions = depth = 0
    while frontier:
        following: list[tuple[Action, ...]] = []
        for path in frontier:
            actions = _replayed(make, path).actions()
            for action in actions:
                transitions += 1
                world = _replayed(make, path)
                try:
                    world.apply(action)
                except Violation as violation:
                    return Explored(len(seen), transitions, depth + 1, str(violation), (*path, action))
                state = world.state()
                if state in seen:
                    continue
                seen.add(state)
                if len(seen) > most_states:
                    raise TooManyStates(f"more than {most_states} states, at depth {depth}")
                following.append((*path, action))
            if not actions:
                try:
                    _replayed(make, path).end()
                except Violation as violation:
                    return Explored(len(seen), transitions, depth, str(violation), path)
        depth += bool(following)
        frontier = following
    return Explored(len(seen), transitions, depth)


def _replayed(make: Callable[[], World], path: Sequence[Action]) -> World:
    world = make()
    for action in path:
        world.apply(action)
    return world
