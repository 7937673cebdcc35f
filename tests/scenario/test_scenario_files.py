"""Where scenarios are found, what is wrong with them, and what is reported."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from gateway_scenario.files import find_cases

from gateway_core.cli import main
from gateway_core.config.registry import Registry
from gateway_core.contract.configs import load
from gateway_core.contract.errors import ConfigError

GATEWAY = """\
brokers: {default: {ingress: [http]}}
triggers: {a: {subscriber: "http://127.0.0.1:1/", filter: {type: x}}}
"""
TESTS = """\
tests:
  it is delivered:
    events: [{event: {type: x}}]
    expect: {triggers: {a: {delivered: 1}}}
"""
FAILING = TESTS.replace("is delivered", "fails").replace("delivered: 1", "delivered: 2")


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name.replace('_', '.')}.yaml").write_text(dedent(text))


def found(registry: Registry, *paths: Path, **env: str) -> list[tuple[str, str, int]]:
    return [(Path(c.file).name, c.name, c.line) for c in find_cases(paths, registry, env)]


def test_a_section_of_the_config(registry: Registry, tmp_path: Path) -> None:
    write(tmp_path, a=GATEWAY + TESTS)
    assert found(registry, tmp_path / "a.yaml") == [("a.yaml", "it is delivered", 4)]


def test_the_file_beside_a_config_and_no_other(registry: Registry, tmp_path: Path) -> None:
    write(tmp_path, a=GATEWAY, a_scenario=TESTS, b=GATEWAY, b_scenario=TESTS)
    assert found(registry, tmp_path / "a.yaml") == [("a.scenario.yaml", "it is delivered", 2)]


def test_each_config_of_a_directory_by_itself(registry: Registry, tmp_path: Path) -> None:
    write(tmp_path, a=GATEWAY, a_scenario=TESTS, b=GATEWAY, b_scenario=TESTS)
    assert [file for file, _, _ in found(registry, tmp_path)] == ["a.scenario.yaml", "b.scenario.yaml"]


def test_a_directory_that_is_one_config(registry: Registry, tmp_path: Path) -> None:
    brokers, triggers = GATEWAY.splitlines()
    write(tmp_path, brokers=brokers, triggers=f"{triggers}\n{TESTS}", whole_scenario=FAILING)
    assert [name for _, name, _ in found(registry, tmp_path)] == ["it is delivered", "it fails"]
    assert set(load([tmp_path], registry, {}).section("tests")) == {"it is delivered"}, (
        "a scenario file is no part of the config"
    )


def test_an_include_leaves_scenario_files_out(registry: Registry, tmp_path: Path) -> None:
    brokers, triggers = GATEWAY.splitlines()
    write(tmp_path, main=f'include: "*.yaml"\n{brokers}', triggers=triggers, main_scenario=TESTS)
    assert found(registry, tmp_path / "main.yaml") == [("main.scenario.yaml", "it is delivered", 2)]


def test_a_scenario_file_names_its_config_and_environment(registry: Registry, tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    write(tmp_path, gateway=GATEWAY.replace("type: x", "type: '${TYPE}'"))
    write(tmp_path / "tests", one_scenario=f"config: ../gateway.yaml\nenv: {{TYPE: x}}\n{TESTS}")
    (case,) = find_cases([tmp_path / "tests" / "one.scenario.yaml"], registry, {"TYPE": "y"})
    assert case.config.triggers["a"].filter == {"type": "x"}


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (TESTS.replace("expect", "expct"), 2, "the key `expect` is missing"),
        (TESTS.replace("[{event: {type: x}}]", "[]"), 3, "at least 1 item"),
        (
            TESTS.replace("{event: {type: x}}", "{event: {}, file: x}"),
            3,
            "write one of `event`, `message`, `file` and `replay`",
        ),
        (TESTS + "    answers: {a: [lost]}", 5, "write a status, ok, timeout, refused, or a mapping"),
        (TESTS + "    answers: {a: 99}", 5, "a number of at least 200"),
        ("tests: [", 1, "not YAML"),
        ("", 0, "expected one document"),
    ],
)
def test_a_fault_has_its_place(text: str, line: int, message: str, registry: Registry, tmp_path: Path) -> None:
    write(tmp_path, a=GATEWAY, a_scenario=text)
    with pytest.raises(ConfigError) as caught:
        find_cases([tmp_path / "a.yaml"], registry, {})
    assert any(message in f.message for f in caught.value.faults), caught.value.faults
    assert {f.file for f in caught.value.faults} == {str(tmp_path / "a.scenario.yaml")}
    assert line in {f.line for f in caught.value.faults}


# -- the command ----------------------------------------------------------------------------------------------------


def run(*args: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(["test", *args])
    assert isinstance(caught.value.code, int)
    return caught.value.code


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, a=GATEWAY + TESTS, a_scenario=FAILING)
    return tmp_path


@pytest.mark.slow
def test_one_line_a_scenario_and_the_way_of_one_that_failed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(folder / "a.yaml")) == 1
    out = capsys.readouterr().out
    assert out.startswith(f"passed {folder}/a.yaml:4 it is delivered\nFAILED {folder}/a.scenario.yaml:2 it fails\n")
    assert "triggers.a.delivered:\n        expected 2\n        found    1: 1\n" in out
    assert "attempt 1 at 0 s: 202 Accepted" in out
    assert out.endswith("1 passed, 1 failed\n")
    assert not {"✓", "✗"} & set(out), "signs are for terminals"


@pytest.mark.slow
def test_scenarios_are_chosen_by_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(folder / "a.yaml"), "--scenario", "it is *") == 0
    assert capsys.readouterr().out.endswith("1 passed\n")
    assert run(str(folder / "a.yaml"), "--scenario", "it was") == 1
    assert "there are: it is delivered; it fails" in capsys.readouterr().err


def test_no_scenarios_at_all_is_no_success(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "b.yaml").write_text(GATEWAY)
    assert run(str(folder / "b.yaml")) == 1
    assert "no scenarios for" in capsys.readouterr().err


def test_the_report_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(folder / "a.yaml"), "--json") == 1
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (report["ok"], report["passed"], report["failed"]) == (False, 1, 1)
    good, bad = report["scenarios"]
    assert (good["ok"], good["failures"], good["line"]) == (True, [], 4)
    assert bad["failures"] == [{"path": "triggers.a.delivered", "expected": "2", "found": "1: 1"}]


def test_the_report_as_junit(folder: Path) -> None:
    write(folder, a_scenario=FAILING.replace("expect: {", 'expect: {unrouted: ["\\u0001<&"], '))
    assert run(str(folder / "a.yaml"), "--junit", str(folder / "out" / "junit.xml")) == 1
    root = ET.parse(folder / "out" / "junit.xml").getroot()
    assert root.tag == "testsuites"
    assert [(s.get("tests"), s.get("failures"), s.get("errors"), s.get("skipped")) for s in root] == [
        ("1", "0", "0", "0"),
        ("1", "1", "0", "0"),
    ]
    good, bad = root.iter("testcase")
    assert (good.get("name"), list(good)) == ("it is delivered", [])
    assert good.get("classname") == str(folder / "a.yaml")
    (failure,) = bad
    assert (failure.tag, failure.get("message")) == ("failure", "unrouted: expected �<&"), "XML has no U+0001"
    assert failure.text is not None
    assert "triggers.a.delivered" in failure.text
    assert "event 1 (x) to default" in failure.text
    assert all(float(case.get("time", "")) >= 0 for case in (good, bad))
