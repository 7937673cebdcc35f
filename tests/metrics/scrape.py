"""What a gateway's `/metrics` says, read by the Python Prometheus client."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gateway_testing import GatewayProcess
from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True)
class Scrape:
    """The samples of one answer: name, labels, value."""

    samples: tuple[tuple[str, tuple[tuple[str, str], ...], float], ...]

    def __call__(self, name: str, **labels: str) -> float:
        """The sum of the samples that have these labels; no such sample is an error."""
        found = [v for n, its, v in self.samples if n == name and labels.items() <= dict(its).items()]
        assert found, f"no {name} with {labels}"
        return sum(found)

    def has(self, name: str) -> bool:
        return any(n == name for n, _, _ in self.samples)


def parsed(text: str) -> Scrape:
    families = text_string_to_metric_families(text)
    return Scrape(tuple((s.name, tuple(sorted(s.labels.items())), s.value) for f in families for s in f.samples))


def scrape(gateway: GatewayProcess) -> Scrape:
    answer = gateway.admin("/metrics")
    assert answer.status_code == 200
    return parsed(answer.text)


UNITS = ("seconds", "bytes", "events", "info", "total", "ratio")
_SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_LINE = re.compile(r'([a-z_0-9]+)(\{(?:[a-z_]+="(?:[^"\\]|\\.)*",?)*\})? (\S+)')


def faults(text: str) -> Iterator[str]:
    """What `promtool check metrics` would say, and a parser that is strict."""
    types: dict[str, str] = {}
    helps: set[str] = set()
    series: set[str] = set()
    family = ""
    if not text.endswith("\n"):
        yield "the last line has no end"
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family = line.split()[2]
            if family in helps:
                yield f"{family}: HELP twice"
            if len(line.split(maxsplit=3)) < 4:
                yield f"{family}: no help"
            helps.add(family)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            if name != family or name in types:
                yield f"{name}: TYPE not right after its HELP, or twice"
            types[name] = kind
            yield from _named(name, kind)
        else:
            match = _LINE.fullmatch(line)
            if match is None:
                yield f"no sample: {line}"
                continue
            name, labels, value = match.groups()
            if name not in {family + suffix for suffix in _SUFFIXES[types[family]]}:
                yield f"{name} among the samples of {family}"
            if f"{name}{labels}" in series:
                yield f"{name}{labels} twice"
            series.add(f"{name}{labels}")
            float(value)


def _named(name: str, kind: str) -> Iterator[str]:
    if not _NAME.fullmatch(name) or "__" in name:
        yield f"{name}: not a name"
    if (kind == "counter") != name.endswith("_total"):
        yield f"{name}: counters, and they alone, end with _total"
    if name.endswith(("_count", "_sum", "_bucket")):
        yield f"{name}: ends like a part of a histogram"
    for word in ("milliseconds", "_ms", "minutes", "kilobytes", "megabytes", "gauge", "counter", "histogram"):
        if word in name:
            yield f"{name}: no base unit, or its type in its name"
    if kind == "histogram" and not name.endswith("_seconds"):
        yield f"{name}: no unit"
