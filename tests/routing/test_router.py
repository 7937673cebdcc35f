"""The router finds what asking every filter finds, and does not ask those that can't match."""

from __future__ import annotations

import pytest
from gateway_basics.filters import any_of
from gateway_log.routing import Router
from hypothesis import example, given
from hypothesis import strategies as st

from gateway_core.contract.event import Event, text_of
from gateway_core.contract.filters import all_of, attributes_filter, match_all
from gateway_core.contract.interfaces import Filter
from tests.budget import examples

NAMES = st.sampled_from(["type", "source", "flag"])
TEXTS = st.sampled_from(["", "a", "ab", "abc", "b", "true", "1"])
EVENTS = st.dictionaries(NAMES, st.one_of(TEXTS, st.booleans(), st.integers(0, 2))).map(Event)


def starts(name: str, text: str) -> Filter:
    def matches(event: Event) -> bool:
        return name in event.attributes and text_of(event.attributes[name]).startswith(text)

    return Filter(matches, prefix=((name, text),))


def ends(name: str, text: str) -> Filter:
    return Filter(lambda e: name in e.attributes and text_of(e.attributes[name]).endswith(text))


LEAVES = st.one_of(
    st.just(match_all()),
    st.dictionaries(NAMES, TEXTS, max_size=2).map(attributes_filter),
    st.builds(starts, NAMES, TEXTS),
    st.builds(ends, NAMES, TEXTS),
)
FILTERS = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, min_size=1, max_size=3).flatmap(lambda f: st.sampled_from([all_of(f), any_of(f)])),
    max_leaves=5,
)
# None takes the filter out
STEPS = st.lists(st.tuples(st.integers(0, 5), st.none() | FILTERS), max_size=12)


@pytest.mark.slow
@pytest.mark.spec("BR-17")
@examples(200)
@given(STEPS, st.lists(EVENTS, min_size=3, max_size=8))
@example(
    [(0, starts("type", "ab")), (1, starts("type", "a")), (0, None)], [Event({"type": t}) for t in ("a", "ab", "")]
)
@example([(0, any_of([starts("type", "a"), attributes_filter({"type": "ab"})]))], [Event({"type": "ab"})])
@example([(0, starts("type", "ab"))], [Event({"type": t}) for t in ("a", "ab", "abc")])
def test_finds_what_asking_every_filter_finds(steps: list[tuple[int, Filter | None]], events: list[Event]) -> None:
    router: Router[int] = Router()
    kept: dict[int, Filter] = {}
    for number, filter in steps:
        kept.pop(number, None)
        if filter is None:
            router.remove(str(number))
        else:
            kept[number] = filter
            router.add(str(number), filter, number)
    for event in events:
        assert sorted(router.route(event)) == sorted(n for n, f in kept.items() if f.matches(event))


@pytest.mark.slow
@pytest.mark.parametrize("existing", [10, 10_000])
@pytest.mark.parametrize("kind", ["exact", "prefix", "any", "shared type"])
def test_asks_only_filters_that_may_match(kind: str, existing: int) -> None:
    asked: list[int] = []

    def filter_of(n: int) -> Filter:
        text = f"/{n:05d}/"

        def matches(event: Event) -> bool:
            asked.append(n)
            return bool(event.attributes["source"].startswith(text))

        pair = ("source", text)
        if kind == "exact":
            return Filter(matches, exact=(pair,))
        if kind == "prefix":
            return Filter(matches, prefix=(pair,))
        if kind == "any":
            return Filter(matches, alternatives=(Filter(matches, exact=(pair,)), Filter(matches, prefix=(pair,))))
        return Filter(matches, exact=(("type", "t"), pair))

    router: Router[int] = Router()
    for n in range(existing):
        router.add(str(n), filter_of(n), n)
    assert router.route(Event({"type": "t", "source": "/00007/"})) == [7]
    assert len(asked) <= 2
