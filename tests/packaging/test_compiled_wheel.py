"""The compiled wheel as users get it: without a compiler it runs, and passes the unit tests."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest
from gateway_testing import GatewayProcess, Subscriber

from gateway_core.cli.installation import build
from tests import web
from tests.packaging.test_compiled import MODULES, ROOT, libraries, run, without_a_compiler
from tests.tree import DEV

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.full, pytest.mark.timeout(3600)]

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
BUILD = ["wheel", "-q", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir"]
GATEWAY = """
brokers: {{default: {{ingress: [http: {{listen: "127.0.0.1:0"}}]}}}}
triggers: {{all: {{subscriber: "{url}"}}}}
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that the tests run on, if it is at hand: making one takes minutes."""
    folder = Path(sys.prefix) / "wheel"
    if build() == "pure" or not folder.exists():
        folder = tmp_path_factory.mktemp("compiled")
        run(*PIP, *BUILD, folder, ROOT, cwd=folder, TIDEGATE_COMPILE="1")
    (made,) = folder.glob("tidegate-*.whl")
    return made


@dataclass(frozen=True)
class Machine:
    """A folder with a virtual environment `env`, and the environment variables of a machine without a compiler."""

    folder: Path
    variables: Mapping[str, str]

    @property
    def python(self) -> Path:
        return self.folder / "env" / "bin" / "python"

    @property
    def site(self) -> Path:
        (found,) = (self.folder / "env" / "lib").glob("python*/site-packages")
        return found

    def run(self, *command: object, cwd: Path | None = None) -> str:
        """Standard output of a command, which must succeed."""
        ran = subprocess.run(
            [str(c) for c in command], cwd=cwd or self.folder, env=self.variables, capture_output=True, text=True
        )
        assert ran.returncode == 0, f"{command}: exit {ran.returncode}\n{ran.stdout[-20_000:]}\n{ran.stderr[-20_000:]}"
        return ran.stdout

    def tidegate(self, *arguments: object) -> str:
        return self.run(self.python.with_name("tidegate"), *arguments)

    def install(self, wheel: Path) -> None:
        install = ["install", "-q", "--no-index", "--no-deps", "--force-reinstall"]
        self.run(*PIP, "--python", self.python, *install, wheel)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    run(sys.executable, "-m", "venv", "--without-pip", "env", cwd=tmp_path)
    made = Machine(tmp_path, without_a_compiler(tmp_path))
    assert not any(shutil.which(name, path=made.variables["PATH"]) for name in ("cc", "gcc", "clang", "c++", "g++"))
    return made


@pytest.fixture
def borrowing(machine: Machine) -> Machine:
    """It has the libraries of the environment that the tests run in."""
    (machine.site / "libraries.pth").write_text(str(Path(pytest.__file__).parents[1]))
    return machine


class _Installed(GatewayProcess):
    """A gateway of a machine."""

    def __init__(self, config: str, machine: Machine) -> None:
        super().__init__(config, machine.folder)
        self._machine = machine

    def _begin(self, command: Sequence[str], env: Mapping[str, str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        variables = {**self._machine.variables, "TIDEGATE_ADMIN": env["TIDEGATE_ADMIN"]}
        return super()._begin([str(self._machine.python), *command[1:]], variables, log)


@pytest.mark.spec("COMP-01")
def test_each_listed_module_is_compiled_and_its_source_is_there(wheel: Path) -> None:
    assert not wheel.name.endswith("-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    beside = {name.partition(".")[0].replace("/", ".") for name in names if name.endswith((".so", ".pyd"))}
    assert {name for name in beside if not name.endswith("__mypyc")} == set(MODULES)
    assert {f"{module.replace('.', '/')}.py" for module in MODULES} <= set(names)


@pytest.mark.spec("COMP-01")
def test_it_runs_with_its_own_dependencies_only(wheel: Path, machine: Machine) -> None:
    """Without any extra, in the versions of the lock."""
    lock = (ROOT / "requirements" / "dev.txt").read_text()
    versions = machine.folder / "versions.txt"
    versions.write_text("\n".join(re.findall(r"^[\w.-]+==[^\s\\;]+", lock, re.MULTILINE)))
    run(*PIP, "--python", machine.python, "install", "-q", "--constraint", versions, wheel, cwd=machine.folder)
    machine.run(*PIP, "--python", machine.python, "check")
    assert machine.tidegate("version").split()[2] == "(compiled)"
    (machine.folder / "tidegate.yaml").write_text(
        (ROOT / "README.md").read_text().split("```yaml\n")[1].split("```")[0]
    )
    scenarios = ROOT / "configs" / "first-pipeline.scenario.yaml"
    (machine.folder / "tidegate.scenario.yaml").write_text(scenarios.read_text())
    machine.tidegate("check", "tidegate.yaml")
    assert json.loads(machine.tidegate("test", "tidegate.yaml", "--json"))["failed"] == 0
    sent = [str(n) for n in range(200)]
    with Subscriber() as subscriber, _Installed(GATEWAY.format(url=subscriber.url), machine) as gateway:
        for number in sent:
            headers = {"ce-specversion": "1.0", "ce-id": number, "ce-source": "/s", "ce-type": "t"}
            answer = web.post(gateway.ingress(), headers=headers, content=b"\x00 data", verify=False)
            assert answer.is_success, answer.text
        gateway.wait_until(gateway.drained, what="all events to be delivered")
        assert sorted(r.headers["ce-id"] for r in subscriber.requests) == sorted(sent)
        assert {r.body for r in subscriber.requests} == {b"\x00 data"}
        assert gateway.stop() == 0


@pytest.mark.spec("COMP-01")
def test_it_passes_the_unit_tests(wheel: Path, borrowing: Machine) -> None:
    borrowing.install(wheel)
    with (borrowing.site / "libraries.pth").open("a") as paths:
        paths.write(f"\n{ROOT}\n{DEV}\n")  # the tests and their tools; what is installed comes first
    said = borrowing.run(
        *(borrowing.python, "-P", "-m", "pytest", "-n", "2", "-m", "unit and not full and not twin"),
        *("--hypothesis-profile", "quick", ROOT / "tests"),
        cwd=ROOT,
    )
    assert re.search(r"^\d{4,} passed", said, re.MULTILINE), said[-2000:]


@pytest.mark.spec("COMP-02")
def test_a_pure_wheel_replaces_it_whole(wheel: Path, borrowing: Machine) -> None:
    """What it left behind would be imported in place of the sources of the other."""
    borrowing.install(wheel)
    assert borrowing.tidegate("version").split()[2] == "(compiled)"
    assert libraries(borrowing.site)
    borrowing.run(*PIP, *BUILD, borrowing.folder, ROOT)
    (pure,) = borrowing.folder.glob("tidegate-*.whl")
    borrowing.install(pure)
    assert libraries(borrowing.site) == []
    assert borrowing.tidegate("version").split()[2] == "(pure)"
