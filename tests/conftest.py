"""Fixtures that every test may use, and the tier of each test.

A test's tier is the most expensive resource it starts, and its fixtures say what that is: `unit` (nothing), `process`
(`processes`, `real_time`, a server of the run), `kafka`, `spark`. The tier is a marker too, so `-m unit` selects it.
"""

from __future__ import annotations

import gc
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress

import pytest

from gateway_core.cli.installation import build
from gateway_core.contract.errors import TidegateError
from tests import budget, cost_table, forked

pytest_plugins = [
    *("tests.limits", "tests.areas", "tests.cost", "tests.spec_report"),
    *("tests.kafka_broker", "tests.servers_shared", "tests.faults.figures"),
]

# the most expensive first
TIERS = {
    "spark": {"spark", "own_spark"},
    "kafka": {"kafka", "own_kafka", "secure_kafka", "strict_kafka"},
    "process": {"processes", "real_time", "mqtt_server", "nats_server", "rabbitmq_server", "redis_server"},
    "unit": set[str](),
}
# events of https://docs.python.org/3/library/audit_events.html
_STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system"}
budget.register_profiles()


@pytest.fixture
def anyio_backend() -> str:
    """The gateway runs on asyncio."""
    return "asyncio"


@pytest.fixture(scope="session")
def processes() -> None:
    """The test starts processes: gateways, commands. Without this fixture or a dearer one it can't."""


@pytest.fixture(scope="session")
def real_time() -> None:
    """The test takes seconds: it waits for real time to pass, or has that much to do."""


@pytest.fixture(scope="session")
def own_spark() -> None:
    """The test starts a Spark session of its own, in whatever process."""


def tier(item: pytest.Item) -> str:
    """The name of the item's tier."""
    used = set(getattr(item, "fixturenames", ()))
    return next((name for name, fixtures in TIERS.items() if fixtures & used), "unit")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collected items live until exit: to look for garbage among them took a third of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks each test with its tier. The most expensive run first, so that no core waits for one of them at the
    end; those that share a fixture run in one worker, so that it is made once."""
    if build() == "compiled":
        left_out = [item for item in items if _is_pure(item)]
        items[:] = [item for item in items if not _is_pure(item)]
        config.hook.pytest_deselected(items=left_out)
    together: dict[str, set[str]] = defaultdict(set)
    order = {}
    for item in items:
        name = tier(item)
        item.add_marker(name)
        if (group := _group(item)) and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(group))
        file = item.nodeid.partition("::")[0]
        mark = item.get_closest_marker("xdist_group")
        order[item] = list(TIERS).index(name), mark.args[0] if mark else file
        together[order[item][1]].add(file)
    costs = {group: sum(cost_table.known().get(file, 0.0) for file in files) for group, files in together.items()}
    items.sort(key=lambda item: (order[item][0], -costs[order[item][1]], order[item][1]))
    items[:] = _mixed(items, {item: group for item, (_, group) in order.items()})


def _mixed(items: list[pytest.Item], group_of: Mapping[pytest.Item, str]) -> list[pytest.Item]:
    """Unit tests, which need a core each, among those that start processes and wait most of their time; and of both,
    expensive groups among cheap ones. Otherwise all workers need a core at one time, and all wait at another."""
    place: dict[pytest.Item, float] = {}
    for name in ("process", "unit"):
        own = [item for item in items if item.get_closest_marker(name)]
        groups = list(dict.fromkeys(group_of[item] for item in own))
        turns = [group for pair in zip(groups, reversed(groups), strict=True) for group in pair]
        turn = {group: n for n, group in enumerate(dict.fromkeys(turns))}
        own.sort(key=lambda item: turn[group_of[item]])
        place |= {item: (n + 1) / len(own) for n, item in enumerate(own)}
    return sorted(items, key=lambda item: place.get(item, 0.0))


def _is_pure(item: pytest.Item) -> bool:
    """Whether the test puts parts of its own into modules or classes, which compiled ones don't let it do."""
    return item.get_closest_marker("pure") is not None or "simulation" in item.path.parts


def _group(item: pytest.Item) -> str | None:
    if not isinstance(item, pytest.Function):
        return None
    for name in ("spark", "secure_kafka", "own_kafka"):
        if name in item.fixturenames:
            return name
    if "browser" in item.fixturenames:
        return "browser"
    made = item._fixtureinfo.name2fixturedefs.values()
    return item.nodeid.partition("::")[0] if any(one[-1].scope in ("module", "class") for one in made) else None


def pytest_collection_finish(session: pytest.Session) -> None:
    """Spark and Kafka start in many tests; with archives of their classes each time takes half as long. They are made
    once per machine, and here, where no test's time limit counts."""
    if session.config.option.collectonly:
        return
    if not all(item.get_closest_marker("unit") for item in session.items):
        forked.install()
    started = {name for item in session.items for name in ("spark", "kafka") if item.get_closest_marker(name)}
    if "kafka" in started:
        from gateway_java import kafka_archive

        with suppress(TidegateError):  # the tests say why there is no Kafka
            kafka_archive.make()
    if "spark" in started:
        from gateway_java import java
        from gateway_spark import class_archive

        class_archive.make(java.find())


class _Refuses:
    """Lets no unit test start a process."""

    def __init__(self) -> None:
        self.active = False
        self._starts = _STARTS  # the hook is called until the interpreter has gone, when modules are empty
        sys.addaudithook(self)

    def __call__(self, event: str, _: tuple[object, ...]) -> None:
        if self.active and event in self._starts:
            raise AssertionError("a unit test starts a process; give it the fixture `processes` (tests/conftest.py)")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Keeps the tiers honest: a test that starts a process and does not say so fails. A hook, for a fixture that runs
    in every test costs more than many of them."""
    _refuses.active = item.get_closest_marker("unit") is not None
    try:
        return (yield)
    finally:
        _refuses.active = False


_refuses = _Refuses()
