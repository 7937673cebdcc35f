"""Finds the filters that match an event, at a cost that depends on the number of matches and not on the number of
filters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, Literal, NamedTuple, TypeVar

from gateway_core.contract.component_errors import Errors
from gateway_core.contract.event import Event, text_of
from gateway_core.contract.filters import indexable
from gateway_core.contract.interfaces import Filter
from gateway_core.contract.normal_form import normal_attributes

T = TypeVar("T")


class _Key(NamedTuple):
    """A condition under which a filter is indexed."""

    kind: Literal["exact", "prefix"]
    attribute: str
    text: str


class _Entry(Generic[T]):
    __slots__ = ("keys", "matches", "target")

    def __init__(self, filter: Filter, target: T, keys: list[_Key]) -> None:
        self.matches = filter.matches
        self.target = target
        self.keys = keys


_Bucket = dict[str, _Entry[T]]
_Lengths = tuple[int, ...]


class Router(Generic[T]):
    """Filters by name, each with a target.

    A filter is indexed under the one of its `exact` or `prefix` conditions that it shares with the fewest others, or
    under each of its `alternatives`; a filter without any runs on every event. `matches` always decides.
    """

    def __init__(self) -> None:
        self._entries: dict[str, _Entry[T]] = {}
        self._exact: dict[str, dict[str, _Bucket[T]]] = {}
        self._prefix: dict[str, tuple[_Lengths, dict[str, _Bucket[T]]]] = {}
        self._scan: _Bucket[T] = {}
        self._errors = Errors("a filter")
        self._repeating = 0  # entries with several keys: an event may find them more than once

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, name: str, filter: Filter, target: T) -> None:
        """Adds a filter, and replaces one of the same name."""
        self.remove(name)
        _, keys = self._plan(filter)
        entry = self._entries[name] = _Entry(filter, target, keys)
        self._repeating += len(keys) > 1
        if not keys:
            self._scan[name] = entry
        for key in keys:
            self._bucket(key)[name] = entry

    def remove(self, name: str) -> None:
        """Removes a filter, if it exists."""
        entry = self._entries.pop(name, None)
        if entry is None:
            return
        self._repeating -= len(entry.keys) > 1
        self._scan.pop(name, None)
        for key in entry.keys:
            self._discard(key, name)

    def route(self, event: Event) -> list[T]:
        """The targets of all filters that match the event, each once, in no particular order. A filter that raises
        counts as a match."""
        found: list[T] = []
        try:
            if self._repeating:
                entries = {id(e): e for bucket in self._buckets(event) for e in bucket.values()}
                return [e.target for e in entries.values() if e.matches(event)]
            for bucket in self._buckets(event):
                for entry in bucket.values():
                    if entry.matches(event):
                        found.append(entry.target)  # noqa: PERF401 - one list for all buckets
        except Exception:
            return [entry.target for name, entry in self._entries.items() if self._wanted(name, entry, event)]
        return found

    def _wanted(self, name: str, entry: _Entry[T], event: Event) -> bool:
        try:
            return entry.matches(event)
        except Exception as e:
            self._errors.note(f"{name} gets the event all the same", e)
            return True

    def _buckets(self, event: Event) -> list[_Bucket[T]]:
        """All filters that may match."""
        attributes = event.attributes
        if attributes.get("specversion") != "1.0":
            attributes = normal_attributes(attributes)
        found = [self._scan] if self._scan else []
        for name, values in self._exact.items():
            value = attributes.get(name)
            if value is not None:
                bucket = values.get(value if type(value) is str else text_of(value))
                if bucket is not None:
                    found.append(bucket)
        for name, (lengths, prefixes) in self._prefix.items():
            value = attributes.get(name)
            if value is not None:
                text = value if type(value) is str else text_of(value)
                for length in lengths:
                    if length > len(text):
                        break
                    bucket = prefixes.get(text[:length])
                    if bucket is not None:
                        found.append(bucket)
        return found

    # -- the index -------------------------------------------------------------------------------------------------

    def _plan(self, filter: Filter) -> tuple[int, list[_Key]]:
        """The keys that are shared with the fewest others, and the number of those; no keys if the filter can't be
        indexed."""
        options = [(self._shared(key), [key]) for key in _conditions(filter)]
        if filter.alternatives and all(map(indexable, filter.alternatives)):
            plans = [self._plan(f) for f in filter.alternatives]
            keys = list(dict.fromkeys(key for _, keys in plans for key in keys))
            options.append((sum(cost for cost, _ in plans), keys))
        return min(options, key=lambda option: option[0], default=(0, []))

    def _shared(self, key: _Key) -> int:
        buckets = self._exact.get(key.attribute, {}) if key.kind == "exact" else self._prefixes(key.attribute)[1]
        return len(buckets.get(key.text, ()))

    def _prefixes(self, attribute: str) -> tuple[_Lengths, dict[str, _Bucket[T]]]:
        return self._prefix.get(attribute, ((), {}))

    def _bucket(self, key: _Key) -> _Bucket[T]:
        if key.kind == "exact":
            return self._exact.setdefault(key.attribute, {}).setdefault(key.text, {})
        lengths, buckets = self._prefixes(key.attribute)
        if len(key.text) not in lengths:
            self._prefix[key.attribute] = (tuple(sorted((*lengths, len(key.text)))), buckets)
        return buckets.setdefault(key.text, {})

    def _discard(self, key: _Key, name: str) -> None:
        buckets = self._exact[key.attribute] if key.kind == "exact" else self._prefix[key.attribute][1]
        bucket = buckets[key.text]
        del bucket[name]
        if bucket:
            return
        del buckets[key.text]
        if key.kind == "exact":
            if not buckets:
                del self._exact[key.attribute]
        elif buckets:
            self._prefix[key.attribute] = (tuple(sorted({len(text) for text in buckets})), buckets)
        else:
            del self._prefix[key.attribute]


def _conditions(filter: Filter) -> Iterator[_Key]:
    for name, text in filter.exact:
        yield _Key("exact", name, text)
    for name, text in filter.prefix:
        yield _Key("prefix", name, text)
