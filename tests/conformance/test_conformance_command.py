"""`tidegate conformance` against the gateway itself: every check passes."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gateway_conformance.bench import Check
from gateway_conformance.run import CHECKS
from gateway_testing import GatewayProcess

from tests.command_line import tidegate

CONFIG = """
brokers:
  default:
    ingress: [http: {listen: "127.0.0.1:0", path: /in}]
    delivery: {retry: 10, backoff_delay_s: 0.05}
    dead_letter: "http://127.0.0.1:PORT/dead"
triggers:
  all: {subscriber: "http://127.0.0.1:PORT/"}
  prefixed: {filters: [{prefix: {type: order.}}], subscriber: "http://127.0.0.1:PORT/prefixed"}
  both: {filters: [{exact: {type: order.paid}}, {suffix: {source: /eu}}], subscriber: "http://127.0.0.1:PORT/both"}
  either: {filters: [{any: [{exact: {type: stock}}, {exact: {subject: cup}}]}], subscriber: "http://127.0.0.1:PORT/or"}
  neither: {filters: [{not: {prefix: {type: order.}}}], subscriber: "http://127.0.0.1:PORT/neither"}
  simple: {filter: {type: stock, subject: ""}, subscriber: "http://127.0.0.1:PORT/simple"}
"""


def conformance(*arguments: str) -> subprocess.CompletedProcess[str]:
    return tidegate("conformance", *arguments)


@pytest.fixture(scope="module")
def port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@pytest.fixture(scope="module")
def gateway(port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(CONFIG.replace("PORT", str(port)), tmp_path_factory.mktemp("conformance")) as g:
        yield g


@pytest.fixture(scope="module")
def document(gateway: GatewayProcess, port: int, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One run of everything, with delivery."""
    file = tmp_path_factory.mktemp("triggers") / "tidegate.yaml"
    file.write_text(CONFIG.replace("PORT", str(port)))
    flags = ("--json", "--settle-s", "1", "--timeout-s", "30", "--triggers", str(file))
    done = conformance("--url", gateway.ingress(), "--sink-port", str(port), *flags)
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    found["code"] = done.returncode
    return found


def _name(check: Check) -> str:
    return f"{check.id}-{check.run.__name__}"


@pytest.mark.xdist_group("conformance")
class TestOurGateway:
    @pytest.mark.parametrize("check", [pytest.param(c, id=_name(c), marks=pytest.mark.spec(c.id)) for c in CHECKS])
    @pytest.mark.usefixtures("processes")
    def test_the_check_passes(self, check: Check, document: dict[str, Any]) -> None:
        (found,) = [c for c in document["checks"] if (c["id"], c["title"]) == (check.id, check.title)]
        assert found["outcome"] == "passed", found["detail"]

    @pytest.mark.usefixtures("processes")
    def test_the_run_says_so(self, document: dict[str, Any]) -> None:
        assert (document["code"], document["conforms"]) == (0, True)
        assert (document["passed"], document["failed"], document["skipped"]) == (len(CHECKS), 0, 0)

    @pytest.mark.usefixtures("processes")
    def test_without_a_sink_port_delivery_is_skipped(self, gateway: GatewayProcess) -> None:
        done = conformance("--url", gateway.ingress(), "--only", "dp-05, BR-15,DP-22")
        assert done.returncode == 0, done.stdout + done.stderr
        lines = done.stdout.splitlines()
        assert "passed  DP-05  must    names POST in Allow where it answers OPTIONS" in lines
        assert "skipped DP-05  must    queues nothing on OPTIONS: needs --sink-port" in lines
        assert {line.split()[1] for line in lines[:-1]} == {"DP-05", "BR-15", "DP-22"}
        assert lines[-1] == "6 passed, 0 failed, 4 skipped: conforms"


def test_ids_are_those_of_the_catalogue_and_titles_are_not_repeated() -> None:
    catalogue = (Path(__file__).parents[1] / "spec_catalogue.toml").read_text()
    assert [c.id for c in CHECKS if f"\n{c.id} = " not in catalogue] == []
    assert len({(c.id, c.title) for c in CHECKS}) == len(CHECKS)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--url", "127.0.0.1:80"), "http://"),
        (("--url", "http://127.0.0.1:9/", "--only", "XY-99"), "XY-99 has no check"),
        (("--url", "http://127.0.0.1:9/", "--header", "nothing"), "NAME=VALUE"),
    ],
)
def test_wrong_usage_is_explained(arguments: tuple[str, ...], says: str) -> None:
    done = conformance(*arguments)
    assert done.returncode == 2
    assert says in done.stderr


def test_a_sink_port_that_is_taken_is_wrong_usage() -> None:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        done = conformance("--url", "http://127.0.0.1:9/", "--sink-port", str(s.getsockname()[1]))
    assert done.returncode == 2
    assert "can't listen" in done.stderr


def test_a_broker_that_is_not_there_fails() -> None:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))  # bound, but nobody listens
        done = conformance("--url", f"http://127.0.0.1:{s.getsockname()[1]}/", "--only", "DP-01,BR-13", "--json")
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert (document["failed"], document["conforms"]) == (4, False)
    assert "had no response" in document["checks"][0]["detail"]
