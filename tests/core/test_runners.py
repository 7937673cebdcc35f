"""Runners: how a third party's plugin runs a gateway."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from gateway_workers import plugin as workers_plugin

from gateway_core.config.registry import Registry
from gateway_core.contract.errors import ConfigError, StartError
from gateway_core.contract.hookspecs import hookimpl
from gateway_core.contract.runners import ConfigRead, Runner, Started
from gateway_core.contract.settings import Settings
from gateway_core.contract.status import GatewayStatus
from gateway_core.runtime.run import run


class Tray:
    """Runs nothing, and notes what it should have run."""

    def __init__(self, workers: int) -> None:
        self.ran: list[tuple[list[Path], int]] = []
        self.runner = Runner("tray", "Runs nothing.", lambda settings: settings.workers == workers, self._run)

    def _run(self, config: ConfigRead, on_started: Callable[[Started], None]) -> int:
        self.ran.append((config.files, config.settings.workers))
        on_started(Started(GatewayStatus("1"), {"default": ["here"]}, {}))
        return 7


def registry(*runners: Runner) -> Registry:
    def gateway_runners() -> list[Runner]:
        return list(runners)

    made = Registry()
    made.add("test", SimpleNamespace(gateway_runners=hookimpl(gateway_runners)))
    return made


def config(folder: Path, text: str = "{}\n") -> Path:
    file = folder / "tidegate.yaml"
    file.write_text(text)
    return file


def test_the_first_runner_that_wants_the_settings_runs_the_gateway(tmp_path: Path) -> None:
    two, also_two, three = Tray(2), Tray(2), Tray(3)
    also_two.runner = Runner("also", "Runs nothing.", also_two.runner.wants, also_two.runner.run)
    three.runner = Runner("three", "Runs nothing.", three.runner.wants, three.runner.run)
    offered = registry(three.runner, two.runner, also_two.runner)
    file, told = config(tmp_path), list[Started]()
    settings = Settings(data_dir=tmp_path / "data", workers=2)
    assert run([str(file)], settings, registry=offered, on_started=told.append) == 7
    assert (two.ran, also_two.ran, three.ran) == ([([file], 2)], [], [])
    assert [started.ingress for started in told] == [{"default": ["here"]}]


def test_a_config_with_faults_reaches_no_runner(tmp_path: Path) -> None:
    tray = Tray(2)
    settings = Settings(data_dir=tmp_path / "data", workers=2)
    with pytest.raises(ConfigError, match="unknown"):
        run([config(tmp_path, "nonsense: 1\n")], settings, registry=registry(tray.runner))
    assert tray.ran == []


def test_several_workers_without_a_runner_are_a_fault(tmp_path: Path) -> None:
    """Of `tidegate check`, which asks `settings_checks`, and of `tidegate run`."""
    offered, settings = registry(Tray(3).runner), Settings(data_dir=tmp_path / "data", workers=2)
    (fault,) = [fault for check in offered.settings_checks for fault in check(settings)]
    assert (fault.path, fault.message) == (
        "TIDEGATE_WORKERS",
        "2 workers need a plugin that runs them, and none is installed",
    )
    assert fault.remedy == "install Tidegate with its plugin `workers`, or set it to 1"
    with pytest.raises(ConfigError, match="2 workers need a plugin"):
        run([config(tmp_path)], settings, registry=offered)
    assert offered.missing_runner(Settings(workers=1)) == offered.missing_runner(Settings(workers=3)) == []


def chosen(registry: Registry, workers: int) -> str | None:
    found = registry.runner(Settings(workers=workers))
    return found.name if found is not None else None


def test_a_shipped_runner_takes_what_no_other_wants() -> None:
    assert chosen(Registry(), 1) is None
    shipped = Registry()
    shipped.add("workers", workers_plugin)
    assert (chosen(shipped, 1), chosen(shipped, 2)) == ("watched", "workers")
    shipped.add("zz", SimpleNamespace(gateway_runners=hookimpl(lambda: [Tray(1).runner])))
    assert (chosen(shipped, 1), chosen(shipped, 2)) == ("tray", "workers")


ALONE = """
import sys
from pathlib import Path
from gateway_core.config.registry import Registry
from gateway_core.runtime.run import run
from gateway_core.contract.settings import Settings

settings = Settings(data_dir=Path(sys.argv[2]))
sys.exit(run([sys.argv[1]], settings, registry=Registry(), on_started=lambda started: print("started", flush=True)))
"""


@pytest.mark.usefixtures("processes")
def test_a_gateway_runs_without_any_plugin(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ALONE, str(config(tmp_path)), str(tmp_path / "data")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"started\n"
        process.terminate()
        assert process.wait(30) == 0


def test_two_runners_of_one_name_are_an_error() -> None:
    made = registry(Tray(2).runner)
    with pytest.raises(StartError, match="runner 'tray' comes from two plugins: 'test' and 'two'"):
        made.add("two", SimpleNamespace(gateway_runners=hookimpl(lambda: [Tray(2).runner])))
