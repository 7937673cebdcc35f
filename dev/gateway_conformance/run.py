"""Runs checks concurrently: they mostly wait."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Literal

import httpx

from .bench import Bench, Check, Failed, NotSupported
from .delivery import DELIVERY
from .ingress import INGRESS
from .replies import REPLIES
from .sink import Sink
from .trigger_config import Triggers
from .triggers import TRIGGERS

CHECKS: list[Check] = [*INGRESS, *DELIVERY, *REPLIES, *TRIGGERS]
SIDE_BY_SIDE = 16
REQUEST_TIMEOUT_S = 10.0

State = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a check. `seen` has a line per failed case, or the reason why it was skipped."""

    check: Check
    state: State
    seen: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def detail(self) -> str:
        """`seen` in one line."""
        return "; ".join(self.seen)


def chosen(ids: Iterable[str]) -> list[Check]:
    """The checks of these requirement ids, or all checks. Raises `KeyError` for an id without a check."""
    wanted = [i.strip().upper() for i in ids if i.strip()]
    for id in wanted:
        if all(c.id != id for c in CHECKS):
            raise KeyError(id)
    return [c for c in CHECKS if not wanted or c.id in wanted]


def run(
    checks: Sequence[Check],
    url: str,
    sink: Sink | None = None,
    *,
    timeout_s: float = 60.0,
    settle_s: float = 5.0,
    headers: dict[str, str] | None = None,
    verify: bool = True,
    triggers: Triggers | None = None,
    told: Callable[[Result], None] = lambda result: None,
) -> list[Result]:
    """Runs the checks and returns their results in the checks' order. Calls `told` with each result."""
    limits = httpx.Limits(max_connections=SIDE_BY_SIDE)
    with httpx.Client(timeout=REQUEST_TIMEOUT_S, headers=headers, verify=verify, limits=limits) as client:
        bench = Bench(url, client, sink, secrets.token_hex(4), timeout_s, settle_s, triggers)
        found: dict[int, Result] = {}
        for result in _run_all(checks, bench, sink is not None):
            found[id(result.check)] = result
            told(result)
    return [found[id(check)] for check in checks]


def _run_all(checks: Sequence[Check], bench: Bench, has_sink: bool) -> Iterator[Result]:
    yield from (Result(c, "skipped", ("needs --sink-port",)) for c in checks if c.sink and not has_sink)
    ready = [c for c in checks if has_sink or not c.sink]
    if fault := _nothing_arrives(bench) if any(c.sink for c in ready) else "":
        yield from (Result(c, "failed", (fault,)) for c in ready if c.sink)
        ready = [c for c in ready if not c.sink]
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        running = [pool.submit(_run_one, c, bench) for c in ready if not c.alone]
        for future in as_completed(running):
            yield future.result()
    for check in ready:
        if check.alone:
            yield _run_one(check, bench)


def _nothing_arrives(bench: Bench) -> str:
    """Checks that events are delivered at all; otherwise each delivery check would wait in vain."""
    try:
        bench.arrivals(bench.deliver())
    except Failed as e:
        return f"{e}: is there a trigger that sends everything to {bench.sink.url}?"
    return ""


def _run_one(check: Check, bench: Bench) -> Result:
    begun = time.monotonic()
    state: State = "passed"
    seen: tuple[str, ...] = ()
    try:
        check.run(bench)
    except Failed as e:
        state, seen = "failed", e.seen
    except NotSupported as e:
        state, seen = "skipped", (str(e),)
    except Exception as e:  # what the broker did was not foreseen; the other checks continue
        state, seen = "failed", (f"the check came to no end: {type(e).__name__}: {e}",)
    return Result(check, state, seen, time.monotonic() - begun)
