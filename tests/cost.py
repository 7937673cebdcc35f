"""A pytest plugin: the CPU seconds that each test takes, with all processes that it starts.

`--cost FILE` writes sums by folder, file and fixture as TOML (`make test-cost`). `--hold-budget` fails a run of which a
folder takes more than 1.5 times what tests/cost_budget.toml allows it. `--shard 2/4` runs the second of four parts
that cost about the same.

CPU time of a running server counts for the test during which it was used. One that all workers share counts in the
worker that started it, so sums by file are exact only in a run without workers; the total always is.
"""

from __future__ import annotations

import os
import resource
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cost_table import BUDGET, load, over, shard

MOST_FILES, MOST_FIXTURES = 50, 30
_PROPERTY = "cpu"
_TICK = 1 / os.sysconf("SC_CLK_TCK")


class Meter:
    """CPU seconds of this process and of all that descend from it."""

    def __init__(self) -> None:
        self._children: dict[tuple[int, int], _Process] = {}
        self._lost = 0.0
        self._own = time.process_time()
        self._others = self._of_others()

    def lap(self, others: bool = True) -> float:
        """What was used since the last call. Without `others`, children are left for a later call: to look at them
        takes a millisecond or more. May be less than 0 by what one call found in two places, or in none."""
        own = time.process_time()
        used, self._own = own - self._own, own
        if others:
            of_others = self._of_others()
            used, self._others = used + of_others - self._others, of_others
        return used

    def _of_others(self) -> float:
        """What ended children used is in the figures of the parent that has asked for their end."""
        now = {(one.pid, one.begun): one for one in _descendants({pid for pid, _ in self._children})}
        # nobody of ours asks for the end of an orphan
        self._lost += sum(one.used for key, one in self._children.items() if one.orphan and key not in now)
        self._children = now
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return self._lost + ended.ru_utime + ended.ru_stime + sum(one.used for one in now.values())


class _Process(NamedTuple):
    pid: int
    begun: int
    used: float
    orphan: bool


def _descendants(known: set[int]) -> Iterator[_Process]:
    """With what each, and its ended children, have used. What was a descendant once still is when its parent has
    ended."""
    found: dict[int, list[bytes]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                found[int(name)] = file.read().rpartition(b") ")[2].split()
        except OSError:
            continue  # it has just ended
    ours = {os.getpid(): True}

    def is_ours(pid: int) -> bool:
        if pid not in ours:
            ours[pid] = pid in known or (pid in found and is_ours(int(found[pid][1])))
        return ours[pid]

    for pid, fields in found.items():
        if pid != os.getpid() and is_ours(pid):
            used = sum(map(int, fields[11:15])) * _TICK
            yield _Process(pid, int(fields[19]), used, orphan=not is_ours(int(fields[1])))


class Costs:
    """Meters in each worker; sums in the process that has the reports of all."""

    def __init__(self, config: pytest.Config) -> None:
        self._meter = Meter()
        self._making = Meter()
        self._made: dict[str, float] = defaultdict(float)
        self._tests: dict[str, float] = defaultdict(float)
        self._besides: dict[str, float] = defaultdict(float)
        self._config = config
        self._worker = hasattr(config, "workerinput")
        self._has_workers = bool(getattr(config.option, "numprocesses", None)) and not self._worker
        self._begun = time.monotonic()

    # -- in a worker, or the only process

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, Any, Any]:
        others = not self._has_workers
        self._besides["start"] += self._meter.lap(others)
        try:
            return (yield)
        finally:
            self._besides["collection"] += self._meter.lap(others)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Generator[None, Any, Any]:
        # what is made for one test seldom starts anything before the test does
        others = request.scope != "function"
        self._making.lap(others)
        try:
            return (yield)
        finally:
            self._made[f"{fixturedef.baseid or 'tests'}::{fixturedef.argname}"] += self._making.lap(others)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        # a unit test starts nothing (tests/conftest.py)
        used = self._meter.lap(others=item.get_closest_marker("unit") is None)
        report.user_properties = [*report.user_properties, (_PROPERTY, used)]
        return report

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._besides["end"] += self._meter.lap(others=not self._has_workers)
        if self._worker:
            session.config.workeroutput["cost"] = {  # type: ignore[attr-defined]
                "made": dict(self._made),
                "besides": dict(self._besides),
            }
        elif session.exitstatus == pytest.ExitCode.OK and self._over():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    # -- in the process that has all reports

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test, at, group = report.nodeid.rpartition("@")
        if not at or "]" in group:  # xdist puts @ and the group behind the name
            test = report.nodeid
        self._tests[test] += sum(float(str(value)) for name, value in report.user_properties if name == _PROPERTY)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        of_worker = getattr(node, "workeroutput", {}).get("cost", {})
        for name, used in of_worker.get("made", {}).items():
            self._made[name] += used
        for name, used in of_worker.get("besides", {}).items():
            self._besides[name] += used

    @property
    def by_folder(self) -> dict[str, float]:
        return _sums(self._tests, lambda test: "/".join(test.split("::")[0].split("/")[:2]))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._worker:
            return
        total = sum(self._tests.values()) + sum(self._besides.values())
        terminalreporter.write_line(f"{total:.0f} s of CPU time in {time.monotonic() - self._begun:.0f} s")
        if file := self._config.getoption("--cost"):
            Path(file).write_text(self._table(total))
        for line in self._over():
            terminalreporter.write_line(line, red=True)

    def _over(self) -> list[str]:
        return over(self.by_folder, load(BUDGET)) if self._config.getoption("--hold-budget") else []

    def _table(self, total: float) -> str:
        parts = {
            "folders": self.by_folder,
            "besides": self._besides,
            "files": _most(_sums(self._tests, lambda test: test.split("::")[0]), MOST_FILES),
            "functions": _most(_sums(self._tests, lambda test: test.partition("[")[0]), MOST_FILES),
            "fixtures": _most(self._made, MOST_FIXTURES),
        }
        lines = ["# Written by `make test-cost`: CPU seconds of one run of `make test`; do not edit.", ""]
        lines += [f"total = {total:.0f}", f"tests = {len(self._tests)}"]
        for name, sums in parts.items():
            lines += ["", f"[{name}]"]
            lines += [f'"{one}" = {used:.1f}' for one, used in sorted(sums.items(), key=lambda row: -row[1])]
        return "\n".join(lines) + "\n"


def _sums(tests: Mapping[str, float], key: Callable[[str], str]) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for test, used in tests.items():
        found[key(test)] += used
    return dict(found)


def _most(sums: Mapping[str, float], count: int) -> dict[str, float]:
    return dict(sorted(sums.items(), key=lambda row: -row[1])[:count])


# -- pytest's hooks -----------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cost", metavar="FILE", help="write what CPU time the tests take to FILE, as TOML")
    parser.addoption("--hold-budget", action="store_true", help="fail if a folder takes more CPU time than it may")

    parser.addoption("--shard", metavar="N/COUNT", help="run one of several parts that cost about the same")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if wanted := config.getoption("--shard"):
        number, count = map(int, wanted.split("/"))
        files = {item: item.nodeid.partition("::")[0] for item in items}
        mine = shard(Counter(files.values()), number, count)
        config.hook.pytest_deselected(items=[item for item in items if files[item] not in mine])
        items[:] = [item for item in items if files[item] in mine]


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--cost") or config.getoption("--hold-budget"):
        config.pluginmanager.register(Costs(config), "tidegate-cost")
