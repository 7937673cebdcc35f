"""A pytest plugin: the servers of the transports, one of each for all workers of a run, and what becomes of tests whose
server this machine does not have.

Such a test is `missing`: neither passed nor skipped. The summary names the server in red, and the requirements that the
test proves are gaps. With `--all-servers` it fails.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from gateway_dev import servers

from tests.keeper import kept

KEEPER = Path(__file__).with_name("server_keeper.py")
MISSING = "missing"


class Lacks(Exception):
    """The machine or its user has not what the test needs, and nobody can bring it: another system, or a right. The
    test is missing, with `--all-servers`, too."""


def need(there: bool, what: str) -> None:
    """Raises `Lacks` if it is not there."""
    if not there:
        raise Lacks(what)


@contextmanager
def shared(name: str, of_worker: Path) -> Iterator[servers.Server]:
    """The server of the run: the worker whose folder this is may be one of several."""
    of_run = of_worker.parent if "PYTEST_XDIST_WORKER" in os.environ else of_worker
    folder = of_run / f"{name}-server"
    server = servers.ALL[name](folder)
    assert server.found, "raises where there is none"
    with kept(folder, [sys.executable, "-P", str(KEEPER), name]) as port:
        server.port = port
        yield server


@pytest.fixture(scope="session")
def mqtt_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    """A Mosquitto that all tests of this run share: use topics and client ids of your own."""
    with shared("mqtt", tmp_path_factory.getbasetemp()) as server:
        yield server


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    """A NATS server with JetStream that all tests of this run share: use streams and subjects of your own."""
    with shared("nats", tmp_path_factory.getbasetemp()) as server:
        yield server


@pytest.fixture(scope="session")
def rabbitmq_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    """A RabbitMQ that all tests of this run share: use queues and exchanges of your own."""
    with shared("rabbitmq", tmp_path_factory.getbasetemp()) as server:
        yield server


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    """A Redis that all tests of this run share: use keys of your own."""
    with shared("redis", tmp_path_factory.getbasetemp()) as server:
        yield server


# -- pytest's hooks -----------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all-servers", action="store_true", help="fail tests whose server can't be had here")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report: Any = yield
    missing = (Lacks,) if item.config.getoption("--all-servers") else (Lacks, servers.Missing)
    if call.excinfo and isinstance(call.excinfo.value, missing):
        report.outcome = "skipped"
        report.longrepr = (str(item.path), (item.location[1] or 0) + 1, str(call.excinfo.value))
        report.user_properties = [*report.user_properties, (MISSING, str(call.excinfo.value))]
    return report  # type: ignore[no-any-return]


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.CollectReport | pytest.TestReport) -> Any:
    if isinstance(report, pytest.TestReport) and MISSING in dict(report.user_properties):
        return MISSING, "M", ("MISSING", {"red": True})
    return None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = terminalreporter.stats.get(MISSING, [])
    found: dict[str, int] = {}
    for report in reports:
        text = str(dict(report.user_properties)[MISSING])
        found[text] = found.get(text, 0) + 1
    if not found:
        return
    terminalreporter.write_sep("=", "missing on this machine", red=True, bold=True)
    for text, count in found.items():
        tests = "1 test proves" if count == 1 else f"{count} tests prove"
        terminalreporter.write_line(f"{tests} nothing: {text}", red=True)
