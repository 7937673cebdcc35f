"""`tidegate plugin check`."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from gateway_terminal.cards import card_lines
from gateway_terminal.tables import console

from gateway_core.contract.cli import common
from gateway_core.contract.cli.exit_codes import FAULT, OK, USAGE
from gateway_core.contract.component import Guarantees

from . import project as projects
from . import wheel as wheels
from .environment import Environment, version
from .processes import LIMIT_S, ran
from .project import Project
from .steps import Step, Stopped, counted
from .suite_use import suites

WITH_SUITES = ("source", "sink", "channel", "codec", "filter", "key_mapper")
TESTS_S = 3600.0
"""How long its tests may take; in seconds."""
Status = Callable[[str], None]


def check_package(folder: Path, *, offline: bool, as_json: bool) -> int:
    """Checks the package in a folder. Returns the exit code. Raises `StartError` if the environment can't be made."""
    project = projects.read(folder.resolve())
    if project is None:
        print(f"tidegate: {folder} is not a package: there is no pyproject.toml", file=sys.stderr)
        return USAGE
    with tempfile.TemporaryDirectory(prefix="tidegate-plugin-") as work, _spinner(as_json) as spinner:
        checking = Check(project, Path(work), offline=offline, status=spinner.update if spinner else lambda text: None)
        for step in checking.steps():
            if not as_json:
                _tell(step)
    failed = any(step.failures for step in checking.done)
    if as_json:
        common.print_json(checking.document(ok=not failed))
    else:
        _end(checking, failed=failed)
    return FAULT if failed else OK


class Check:
    """The steps of one check. `done` are those that have ended, `components` what the plugin offers."""

    def __init__(self, project: Project, work: Path, *, offline: bool, status: Status = lambda text: None) -> None:
        self.done: list[Step] = []
        self.components: list[dict[str, Any]] = []
        self.clean = False
        self._project = project
        self._work = work
        self._offline = offline
        self._status = status

    def steps(self) -> Iterator[Step]:
        """Each step once it has ended. A failure may end them early."""
        try:
            for step in self._steps():
                self.done.append(step)
                yield step
        except Stopped as stopped:
            step = stopped.args[0]
            self.done.append(step)
            yield step

    def document(self, *, ok: bool) -> dict[str, Any]:
        """For JSON."""
        return {
            "project": self._project.name,
            "ok": ok,
            "python": version(),
            "clean": self.clean,
            "steps": [step.document() for step in self.done],
            "components": self.components,
        }

    def _steps(self) -> Iterator[Step]:
        yield (looked := projects.look_at(self._project))
        if looked.failures:
            return
        self._status("making an environment")
        environment = Environment(self._work / "env", offline=self._offline)
        self._status("building the wheel")
        (self._work / "wheel").mkdir()
        built, wheel = wheels.build(self._project, self._work / "wheel", environment.python, offline=self._offline)
        yield built
        yield wheels.look_at(wheel, self._project)
        self._status("installing it")
        yield environment.install(wheel, self._project)
        self.clean = environment.clean
        self._status("looking at it")
        yield from self._inside(environment)
        self._status("running its tests")
        yield self._tests(environment)

    def _inside(self, environment: Environment) -> Iterator[Step]:
        pages = [str(page) for page in self._project.pages]
        command = [str(environment.python), "-I", "-B", "-m", "gateway_plugins.inside", self._project.name, *pages]
        looked = ran(command, LIMIT_S, cwd=self._work)
        try:
            found = json.loads(looked.out.splitlines()[-1])
        except (ValueError, IndexError):
            raise Stopped(Step("load", failures=[f"it can't be looked at: {looked.last}"])) from None
        self.components = found["components"]
        for step in found["steps"]:
            yield Step(step["name"], step["about"], step["failures"], step["warnings"])

    def _tests(self, environment: Environment) -> Step:
        project, step = self._project, Step("tests")
        if not project.tests:
            step.failures.append("there are no tests: write tests/test_*.py with the suites of gateway_testing")
            return step
        used = suites(project.tests)
        for c in self.components:
            if c["kind"] in WITH_SUITES and (c["kind"], c["name"]) not in used:
                step.warnings.append(f"no suite of gateway_testing tests the {c['kind']} {c['name']}")
        # what is installed is tested, not the sources beside the tests
        report = self._work / "tests.xml"
        options = ["-p", "no:cacheprovider", "-o", "pythonpath=", "-rfE", f"--junitxml={report}"]
        place = ["-c", str(project.pytest_file), "--rootdir", str(project.folder)]
        command = [str(environment.python), "-I", "-B", "-m", "pytest", *options, *place, *map(str, project.tests)]
        done = ran(command, TESTS_S, cwd=project.folder)
        step.about = _counts(report)
        if done.code:
            failed = [line for line in done.out.splitlines() if line.startswith(("FAILED", "ERROR"))]
            step.failures += failed[:10] or [f"pytest failed: {done.last}"]
        return step


def _counts(report: Path) -> str:
    """The counts in pytest's report: "11 tests, 1 skipped"."""
    if not report.is_file():
        return ""
    found = next(ElementTree.parse(report).iter("testsuite")).attrib
    counts = [counted(int(found["tests"]), "test")]
    counts += [f"{found[what]} {what}" for what in ("failures", "errors", "skipped") if found[what] != "0"]
    return ", ".join(counts)


# -- what people see --------------------------------------------------------------------------------------------------


def _spinner(as_json: bool) -> AbstractContextManager[Any]:
    if as_json or not sys.stderr.isatty():
        return nullcontext()
    return console(stderr=True).status("reading pyproject.toml")


def _tell(step: Step) -> None:
    print(f"{step.result:<9}{step.name:<10}{step.about}".rstrip(), flush=True)
    for text in [*step.failures, *step.warnings]:
        print(f"{'':<19}{text}")


def _end(checking: Check, *, failed: bool) -> None:
    width = shutil.get_terminal_size((120, 24)).columns
    for component in checking.components:
        if component["guarantees"]:
            print(f"\n{component['kind']} {component['name']}: {component['summary']}")
            print("\n".join(card_lines(Guarantees(**component["guarantees"]), width)))
    count = sum(bool(step.failures) for step in checking.done)
    warned = sum(len(step.warnings) for step in checking.done)
    tail = f"; {counted(warned, 'warning')}" if warned else ""
    print(f"\n{counted(count, 'step')} FAILED{tail}" if failed else f"\nall is well{tail}")
