"""What the plugin `tests.cost` measures, and that a folder may not take more than its budget."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests import cost_table

pytest_plugins = ["pytester"]

CASES = """
import subprocess, sys, time, pytest

BURN = "import time\\nwhile time.process_time() < 0.5: pass"
PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}

def test_own():
    end = time.process_time() + 0.3
    while time.process_time() < end: pass

def test_child():
    subprocess.run([sys.executable, "-c", BURN])

@pytest.fixture(scope="module")
def server():
    with subprocess.Popen([sys.executable, "-c", BURN + "\\nprint(flush=True)\\ninput()"], **PIPES) as server:
        server.stdout.readline()
        yield server
        server.communicate(b"\\n")

def test_server_that_runs(server): pass

def test_beside_it(server): pass

def test_orphan():
    begun = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {BURN!r}])"
    subprocess.run([sys.executable, "-c", begun])
    time.sleep(1)
"""


@pytest.mark.parametrize("workers", [(), ("-n", "2", "--dist", "loadfile")], ids=["one process", "workers"])
@pytest.mark.usefixtures("processes")
@pytest.mark.area(name="suite")
def test_all_that_a_test_starts_counts(pytester: pytest.Pytester, workers: tuple[str, ...]) -> None:
    pytester.mkdir("one")
    (pytester.path / "one" / "test_cases.py").write_text(CASES)
    plugins = ("-p", "tests.cost", "-p", "no:cacheprovider", "-W", "ignore")
    ran = pytester.runpytest_subprocess(*plugins, "--cost", "cost.toml", "--hold-budget", *workers)
    table = tomllib.loads((pytester.path / "cost.toml").read_text())
    found = {test.rpartition("::")[2]: used for test, used in table["functions"].items()}
    assert found["test_own"] >= 0.3
    assert found["test_child"] >= 0.5
    assert found["test_server_that_runs"] >= 0.5
    assert found["test_beside_it"] < 0.5
    assert table["fixtures"]["one/test_cases.py::server"] >= 0.5
    assert table["folders"]["one/test_cases.py"] == pytest.approx(sum(found.values()), abs=0.5)
    assert sum(found.values()) < table["total"] + 1
    assert ran.ret == pytest.ExitCode.TESTS_FAILED
    ran.stdout.fnmatch_lines(["one/test_cases.py takes * s of CPU time, may take 1.5 times 0 s: cost_budget.toml"])


def test_only_a_folder_over_its_budget_is_named() -> None:
    budget = {"tests/a": 10.0, "tests/b": 10.0}
    assert cost_table.over({"tests/a": 14.9, "tests/b": 9.0}, budget) == []
    (line,) = cost_table.over({"tests/a": 15.1, "tests/b": 9.0}, budget)
    assert line.startswith("tests/a takes 15 s")


def test_each_folder_has_a_budget() -> None:
    folders = {f"tests/{file.parent.name}" for file in Path(cost_table.__file__).parent.glob("*/test_*.py")}
    assert folders == set(cost_table.load(cost_table.BUDGET))


def test_shards_are_all_files_once_and_cost_about_the_same() -> None:
    tests = {f"tests/x/test_{n}.py": n for n in range(1, 60)}
    shards = [cost_table.shard(tests, number, 4) for number in range(1, 5)]
    assert sorted(file for shard in shards for file in shard) == sorted(tests)
    sums = [sum(tests[file] for file in shard) for shard in shards]
    assert max(sums) - min(sums) < 60
