"""The conformance table says what the run said, and nothing else."""

from __future__ import annotations

import re

import pytest

from tests.spec_report import CATALOGUE, load

pytest_plugins = ["pytester"]

CASES = """
import pytest
from hypothesis import given, settings, strategies as st

@pytest.mark.spec("DP-01", "DP-02")
def test_good(): pass

@pytest.mark.spec("DP-02")
@pytest.mark.parametrize("n", [1, 2, 3])
def test_one_case_is_bad(n): assert n != 2

@pytest.mark.spec("DP-03")
def test_skipped(): pytest.skip("not here")

@pytest.mark.spec("DP-04")
class TestClass:
    @pytest.mark.parametrize("n", [1, 2, 3])
    def test_cases(self, n): pass

@pytest.mark.spec("BR-01")
@settings(max_examples=2)
@given(st.integers())
def test_property(n): assert isinstance(n, int)

def test_without_mark(): pass
"""


@pytest.fixture
def run(pytester: pytest.Pytester):  # type: ignore[no-untyped-def]
    pytester.makeini("[pytest]\nmarkers = spec(*ids)\n")

    def go(*options: str) -> pytest.RunResult:
        plugins = ("-p", "tests.spec_report", "-p", "tests.servers_shared", "-p", "no:cacheprovider")
        return pytester.runpytest_subprocess(*plugins, "--conformance", "out.md", *options)

    return go


def rows(page: str) -> dict[str, tuple[str, str]]:
    cells = [line.strip("| ").split("|") for line in page.splitlines() if re.match(r"\| [A-Z0-9]+-\d+ ", line)]
    return {c[0].strip(): (c[-2].strip(), c[-1].strip()) for c in cells}


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["one process", "xdist"])
@pytest.mark.usefixtures("processes")
@pytest.mark.area(name="suite")
def test_the_table_shows_what_happened(pytester: pytest.Pytester, run, workers: list[str]) -> None:  # type: ignore[no-untyped-def]
    pytester.makepyfile(test_cases=CASES)
    result = run(*workers)
    assert result.ret == 1
    page = (pytester.path / "out.md").read_text()
    row = rows(page)
    assert row["DP-01"] == ("`test_cases.py` test_good", "passed")
    assert row["DP-02"][1] == "FAILED"
    assert "test_good" in row["DP-02"][0]
    assert "test_one_case_is_bad" in row["DP-02"][0]
    assert row["DP-03"][1] != "passed", "a skipped test proves nothing"
    assert row["DP-04"] == ("`test_cases.py` test_cases (3)", "passed")
    assert row["DP-05"] == ("", "gap")
    assert "1 property tests" in page
    result.stdout.fnmatch_lines(["DP-01*passed*", "DP-05*gap*"])


@pytest.mark.usefixtures("processes")
@pytest.mark.area(name="suite")
def test_a_requirement_without_a_proof_fails_the_run(pytester: pytest.Pytester, run) -> None:  # type: ignore[no-untyped-def]
    names = " ".join(f'"{id}",' for id in load() if id != "DP-05")
    pytester.makepyfile(f"import pytest\n@pytest.mark.spec({names})\ndef test_all_but_one(): pass")
    assert run().ret == 0
    result = run("--every-requirement")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["no test that passed proves DP-05"])


@pytest.mark.parametrize(
    "workers", [pytest.param([], id="one process"), pytest.param(["-n", "1"], marks=pytest.mark.full, id="xdist")]
)
@pytest.mark.usefixtures("processes")
@pytest.mark.area(name="suite")
def test_an_unknown_id_is_a_collection_error(pytester: pytest.Pytester, run, workers: list[str]) -> None:  # type: ignore[no-untyped-def]
    pytester.makepyfile('import pytest\n@pytest.mark.spec("DP-1")\ndef test_x(): pass')
    result = run(*workers)
    assert result.ret != 0
    assert "no requirement 'DP-1'" in result.stdout.str()
    assert "did you mean 'DP-" in result.stdout.str()


def test_the_catalogue_is_whole() -> None:
    ranges = {"DP": 27, "BR": 26, "HB": 4, "CE1": 11, "KB": 17, "FN": 14, "CARD": 8}
    wanted = [f"{group}-{n:02}" for group, last in ranges.items() for n in range(1, last + 1)]
    catalogue = load()
    assert [id for id in catalogue if id.partition("-")[0] in ranges] == wanted
    assert {r.level for r in catalogue.values()} == {"M", "S", "m", "-"}
    assert all(r.text and "|" not in r.text for r in catalogue.values())


def test_the_page_in_the_tree_names_every_requirement() -> None:
    page = (CATALOGUE.parents[1] / "docs/conformance.md").read_text()
    assert sorted(rows(page)) == sorted(load())


MISSING = """
import pytest
from gateway_dev import program, servers

NONE = program.Program("no-such-server", "no-such-package", wheel="no-such-wheel")

@pytest.fixture(scope="session")
def server(): return program.find(NONE)

@pytest.mark.spec("DP-01", "DP-02")
def test_needs_it(server): pass

@pytest.mark.spec("DP-02", "DP-03")
def test_needs_nothing(): pass

def test_needs_it_too(): program.find(NONE)
"""


@pytest.mark.parametrize(
    "workers", [pytest.param([], id="one process"), pytest.param(["-n", "1"], marks=pytest.mark.full, id="xdist")]
)
@pytest.mark.usefixtures("processes")
@pytest.mark.area(name="suite")
def test_a_server_that_can_not_be_had_is_a_gap(  # type: ignore[no-untyped-def]
    pytester: pytest.Pytester, run, workers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(pytester.path / "cache"))
    monkeypatch.setenv("PATH", str(pytester.path))  # no apt-get
    pytester.makepyfile(test_missing=MISSING)
    result = run(*workers, "--color=yes")
    assert result.ret == 0
    row = rows((pytester.path / "out.md").read_text())
    assert row["DP-01"] == ("`test_missing.py` test_needs_it (missing here: no-such-server)", "gap")
    assert row["DP-02"][1] == "gap", "one of its tests could not run"
    assert row["DP-03"][1] == "passed"
    red = "\x1b[31m2 tests prove nothing: no-such-server is needed and there is none on this machine: not on PATH; "
    assert red in result.stdout.str()
    assert "1 passed" in result.stdout.str()
    assert "2 missing" in result.stdout.str()
    strict = run(*workers, "--all-servers")
    assert strict.ret == 1
    assert rows((pytester.path / "out.md").read_text())["DP-01"][1] == "FAILED"
