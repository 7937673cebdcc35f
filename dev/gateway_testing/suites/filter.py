"""What every filter must do (`gateway_core.contract.interfaces.Filter`)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path

import pytest

from gateway_core.contract.event import Event, text_of
from gateway_core.contract.filters import clause_of
from gateway_core.contract.interfaces import Filter

from ..vectors import HOSTILE_EVENTS, VECTORS, texts
from .kit import Kit, Suite

ODD = [
    *(v.event for v in VECTORS),
    Event({"specversion": "1.0", "id": "1", "source": "/s", "type": ""}),
    Event({"specversion": "0.1", "type": "t", "source": "/s", "id": "1", "extensions": {"a": {"b": [1]}}}, b"{}"),
    Event({"specversion": "1.0", "id": "\U0001f600", "source": "x" * 10_000, "type": "%_'\"\\", "n": -(2**31)}),
]


class FilterSuite(Suite):
    """Subclass it, write `build`, and list events that match and events that don't:

    class TestMine(FilterSuite):
        def build(self, kit):
            return kit.filter("mine", {"type": "a"})

        matching = [Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "a"})]
        others = [Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "b"})]
    """

    matching: Sequence[Event] = ()
    others: Sequence[Event] = ()

    def build(self, kit: Kit) -> Filter:
        raise NotImplementedError

    @pytest.fixture
    def kit(self) -> Kit:
        return Kit(Path("unused"))  # filters need no folder, and creating one per case would take longer than the case

    @pytest.fixture
    def filter(self, kit: Kit) -> Filter:
        return self.build(kit)

    def test_it_matches_what_it_should(self, filter: Filter) -> None:
        assert self.matching, "list events that match"
        assert [e for e in self.matching if filter.matches(e) is not True] == []

    def test_it_matches_nothing_else(self, filter: Filter) -> None:
        assert self.others, "list events that don't match"
        assert [e for e in self.others if filter.matches(e) is not False] == []

    def test_binary_and_structured_mode_match_alike(self, filter: Filter) -> None:
        for event in [*self.matching, *self.others, *ODD]:
            as_headers = Event(dict(texts(event)), event.data)
            assert filter.matches(as_headers) == filter.matches(event), event.attributes

    def test_every_match_fulfils_the_hints_that_the_router_indexes_by(self, filter: Filter) -> None:
        for event in [*self.matching, *ODD]:
            if filter.matches(event):
                assert _hints_hold(filter, event), event.attributes

    def test_its_explanation_says_what_it_does(self, filter: Filter) -> None:
        for event in [*self.matching, *self.others, *ODD]:
            assert clause_of(filter, event).matched is filter.matches(event), event.attributes

    @pytest.mark.parametrize("event", HOSTILE_EVENTS.values(), ids=HOSTILE_EVENTS)
    def test_it_raises_on_no_event(self, filter: Filter, event: Event) -> None:
        """The gateway keeps an event whose filter raises: it goes to the dead letter."""
        decided = filter.matches(event)
        assert decided is True or decided is False
        assert clause_of(filter, event).matched is decided

    def test_it_changes_nothing_and_decides_the_same_again(self, filter: Filter) -> None:
        for event in [*self.matching, *self.others, *ODD]:
            before = copy.deepcopy(event.attributes)
            first = filter.matches(event)
            assert filter.matches(event) is first
            assert event.attributes == before


def _hints_hold(filter: Filter, event: Event) -> bool:
    text = {name: text_of(value) for name, value in event.attributes.items()}
    if any(text.get(name) != value for name, value in filter.exact):
        return False
    if any(not text.get(name, "").startswith(value) or name not in text for name, value in filter.prefix):
        return False
    return not filter.alternatives or any(_hints_hold(f, event) for f in filter.alternatives)
