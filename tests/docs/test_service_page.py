"""The unit for systemd on the page about services: its command exists, and its values fit the gateway's own."""

from __future__ import annotations

import configparser
import shlex

import pytest
import typer

from gateway_core.cli.app import app
from gateway_core.contract.cli import exit_codes
from gateway_core.contract.settings import Settings
from gateway_core.runtime.component_tasks import STOP_S
from tests.docs.blocks import ROOT, blocks


@pytest.fixture
def unit() -> configparser.SectionProxy:
    (block,) = blocks("ini")
    assert block.page == ROOT / "docs" / "howto" / "run-as-a-service.md"
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(block.text)
    return parser["Service"]


def test_its_command_has_these_options(unit: configparser.SectionProxy) -> None:
    program, command, *arguments = shlex.split(unit["ExecStart"])
    assert (program.rpartition("/")[2], command) == ("tidegate", "run")
    run = typer.main.get_command(app).commands["run"]  # type: ignore[attr-defined]
    known = {option for parameter in run.params for option in parameter.opts}
    assert {word for word in arguments if word.startswith("-")} <= known


def test_a_stop_has_the_time_that_it_may_take(unit: configparser.SectionProxy) -> None:
    assert int(unit["TimeoutStopSec"]) > Settings().drain_timeout_s + STOP_S


def test_only_what_another_start_may_mend_is_started_again(unit: configparser.SectionProxy) -> None:
    assert {int(code) for code in unit["RestartPreventExitStatus"].split()} == {exit_codes.FAULT, exit_codes.USAGE}
