"""A pytest plugin: which tests prove which requirement, and what came of them.

`@pytest.mark.spec("DP-05", …)` names requirements of `tests/spec_catalogue.toml`; an unknown id is a collection error.
`--conformance FILE` writes the table of all requirements. What a test's mark says travels with its report, so the table
is the same with and without pytest-xdist.
"""

from __future__ import annotations

import difflib
import tomllib
from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

CATALOGUE = Path(__file__).with_name("spec_catalogue.toml")
NOTE = "<!-- Written by `make conformance` from the outcomes of one run of the test suite; do not edit. -->"


@dataclass(frozen=True, slots=True)
class Requirement:
    id: str
    level: str
    text: str
    document: str


@dataclass(slots=True)
class Proof:
    """A test function's outcome over all its cases, and the ids it proves."""

    ids: frozenset[str]
    passed: int = 0
    bad: int = 0
    missing: set[str] = field(default_factory=set)
    """What this machine did not have (tests/servers_shared.py)."""


@dataclass
class Ledger:
    """What the reports of one run said."""

    proofs: dict[str, Proof] = field(default_factory=dict)
    properties: set[str] = field(default_factory=set)

    def add(self, report: pytest.TestReport) -> None:
        facts = dict(report.user_properties)
        test = report.nodeid.partition("[")[0].partition("@")[0]  # xdist puts @ and the group behind it
        if facts.get("hypothesis"):
            self.properties.add(test)
        if "spec" not in facts:
            return
        ids = frozenset(str(facts["spec"]).split())
        proof = self.proofs.setdefault(test, Proof(ids))
        proof.ids |= ids  # cases of one test may carry marks of their own
        if "missing" in facts:
            proof.missing.add(str(facts["missing"]))
        elif report.outcome == "failed" or (report.outcome == "skipped"):
            proof.bad += 1
        elif report.when == "call":
            proof.passed += 1

    def by_requirement(self) -> Mapping[str, dict[str, Proof]]:
        found: dict[str, dict[str, Proof]] = defaultdict(dict)
        for test, proof in sorted(self.proofs.items()):
            for one in proof.ids:
                found[one][test] = proof
        return found


def load(path: Path = CATALOGUE) -> dict[str, Requirement]:
    """All requirements by id, in the order of the file."""
    sections = tomllib.loads(path.read_text())
    return {
        id: Requirement(id, level, text, document)
        for document, rows in sections.items()
        for id, (level, text) in rows.items()
    }


def outcome(proofs: Iterable[Proof]) -> str:
    """ "passed" where all tests of a requirement passed, "FAILED" where one did not, "gap" where there are none or one
    could not run because this machine lacks a server."""
    all_of_them = list(proofs)
    if any(p.bad for p in all_of_them):
        return "FAILED"
    if any(p.missing for p in all_of_them):
        return "gap"
    return "passed" if any(p.passed for p in all_of_them) else "gap"


def table(ledger: Ledger, catalogue: Mapping[str, Requirement]) -> str:
    """The page: one section a document, one row a requirement."""
    found = ledger.by_requirement()
    outcomes = {id: outcome(found.get(id, {}).values()) for id in catalogue}
    lines = [NOTE, "", "# Conformance", "", summary(outcomes, ledger), ""]
    lines += ["Level: M must, S should, m may, - the project's own. A requirement without a passing test is a gap.", ""]
    document = ""
    for id, requirement in catalogue.items():
        if requirement.document != document:
            document = requirement.document
            lines += [
                f"## {document}",
                "",
                "| id | level | requirement | tests | outcome |",
                "| --- | --- | --- | --- | --- |",
            ]
        tests = "<br>".join(_name(t, p) for t, p in found.get(id, {}).items())
        lines.append(f"| {id} | {requirement.level} | {requirement.text} | {tests} | {outcomes[id]} |")
        if id == _last_of(document, catalogue):
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def summary(outcomes: Mapping[str, str], ledger: Ledger) -> str:
    count = {word: sum(o == word for o in outcomes.values()) for word in ("passed", "FAILED", "gap")}
    return (
        f"{count['passed']} of {len(outcomes)} requirements have passing tests, {count['FAILED']} have a failing one, "
        f"{count['gap']} are gaps; {len(ledger.properties)} property tests."
    )


def _last_of(document: str, catalogue: Mapping[str, Requirement]) -> str:
    return [r.id for r in catalogue.values() if r.document == document][-1]


def _name(test: str, proof: Proof) -> str:
    path, _, function = test.rpartition("::")
    file = path.partition("::")[0].removeprefix("tests/")
    cases = f" ({proof.passed})" if proof.passed > 1 else ""
    names = ", ".join(sorted(m.partition(" ")[0] for m in proof.missing))
    missing = f" (missing here: {names})" if names else ""
    return f"`{file}` {function}{cases}{missing}"


# -- pytest's hooks -----------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--conformance", metavar="FILE", help="write the table of requirements and their tests to FILE")
    parser.addoption("--every-requirement", action="store_true", help="fail if no passed test proves a requirement")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(
        SpecReport(config.getoption("--conformance"), config.getoption("--every-requirement")), "tidegate-spec-report"
    )


class SpecReport:
    def __init__(self, target: str | None, every: bool) -> None:
        self.every = every
        self.catalogue = load()
        self.ledger = Ledger()
        self.target = Path(target) if target else None

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        wrong = [f"{i.nodeid}: {w}" for i in report.result or () if isinstance(i, pytest.Item) for w in self._wrong(i)]
        if wrong and report.outcome == "passed":
            report.outcome = "failed"
            report.longrepr = "\n".join(wrong)
            report.result = []
        return report

    def _wrong(self, item: pytest.Item) -> list[str]:
        """Puts what is to be reported on the item; returns the ids that no catalogue knows."""
        ids = sorted({str(a) for mark in item.iter_markers("spec") for a in mark.args})
        if ids:
            item.user_properties.append(("spec", " ".join(ids)))
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.user_properties.append(("hypothesis", True))
        return [self._unknown(id) for id in ids if id not in self.catalogue]

    def _unknown(self, id: str) -> str:
        near = difflib.get_close_matches(id, self.catalogue, 1)
        hint = f"did you mean {near[0]!r}?" if near else "add it there, or correct the mark"
        return f"no requirement {id!r} in tests/{CATALOGUE.name}; {hint}"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.ledger.add(report)

    def _without_proof(self) -> list[str]:
        found = self.ledger.by_requirement()
        return [id for id in self.catalogue if not any(proof.passed for proof in found.get(id, {}).values())]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        in_worker = hasattr(session.config, "workerinput")
        if self.every and not in_worker and session.exitstatus == pytest.ExitCode.OK and self._without_proof():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.every and (ids := self._without_proof()):
            terminalreporter.write_line(f"no test that passed proves {', '.join(ids)}", red=True)
        if self.target is None:
            return
        page = table(self.ledger, self.catalogue)
        self.target.parent.mkdir(parents=True, exist_ok=True)
        self.target.write_text(page)
        terminalreporter.section("conformance")
        found = self.ledger.by_requirement()
        for id, requirement in self.catalogue.items():
            proofs = found.get(id, {})
            terminalreporter.write_line(
                f"{id:8} {requirement.level:2} {outcome(proofs.values()):7} {len(proofs):3}  {requirement.text[:90]}"
            )
        terminalreporter.write_line(page.split("\n")[4])
        terminalreporter.write_line(f"written to {self.target}")
