"""What every key mapper must do (`gateway_core.contract.interfaces.KeyMapper`)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import KeyMapper

from ..vectors import HOSTILE_EVENTS, VECTORS, texts
from .kit import Kit, Suite


class KeyMapperSuite(Suite):
    """Subclass it, write `build`, and list events with their keys, None for no key:

    class TestMine(KeyMapperSuite):
        def build(self, kit):
            return kit.key_mapper("mine", {"attribute": "subject"})

        keys = [(Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "subject": "a"}), b"a")]
    """

    keys: Sequence[tuple[Event, bytes | None]] = ()

    def build(self, kit: Kit) -> KeyMapper:
        raise NotImplementedError

    @pytest.fixture
    def kit(self) -> Kit:
        return Kit(Path("unused"))  # key mappers need no folder, and creating one per case would take longer

    @pytest.fixture
    def key(self, kit: Kit) -> KeyMapper:
        return self.build(kit)

    def test_it_makes_the_keys_that_it_should(self, key: KeyMapper) -> None:
        assert self.keys, "list events with their keys"
        assert [key(event) for event, _ in self.keys] == [wanted for _, wanted in self.keys]

    def test_binary_and_structured_mode_have_the_same_keys(self, key: KeyMapper) -> None:
        for event, wanted in self.keys:
            as_headers = Event(dict(texts(event)), event.data, event.json_data, event.key)
            assert key(as_headers) == wanted, event.attributes

    def test_it_changes_nothing_and_decides_the_same_again(self, key: KeyMapper) -> None:
        for event in [*(event for event, _ in self.keys), *(v.event for v in VECTORS)]:
            before = copy.deepcopy(event.attributes), event.data, event.key
            with suppress(Refused):
                assert key(event) == key(event)
            assert (event.attributes, event.data, event.key) == before

    @pytest.mark.parametrize("event", HOSTILE_EVENTS.values(), ids=HOSTILE_EVENTS)
    def test_it_makes_a_key_or_refuses(self, key: KeyMapper, event: Event) -> None:
        """An event that is refused goes to the dead letter."""
        with suppress(Refused):
            found = key(event)
            assert found is None or isinstance(found, bytes)
