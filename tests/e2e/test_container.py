"""A container as Kubernetes and OpenShift start it: a user id without a name, and one folder that can be written."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from gateway_testing import GatewayProcess, Subscriber

from tests import namespaces
from tests.processes import log_lines

from .one_trigger import config_for, numbers, send
from .test_workers import both

UID = "53211"
INSIDE = """
mount --bind "$1" "$1"
for at in / /tmp /var/tmp /usr/tmp; do
    if mountpoint -q $at; then mount -o remount,bind,ro $at; fi
done
cd /
exec unshare --user --map-user=$2 --map-group=$2 env HOME=/ "${@:3}"
"""


def container(folder: Path) -> Sequence[str]:
    """What goes before a command, which can then write into this folder alone."""
    return [*namespaces.own("mount"), "bash", "-ec", INSIDE, "bash", str(folder), UID]


class Contained(GatewayProcess):
    @property
    def launcher(self) -> Sequence[str]:  # type: ignore[override]
        return container(self.folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder; in the container, nothing else can be written. Raises `Missing` where there are no namespaces."""
    namespaces.need(container(tmp_path), "a container")
    for place in ("/tmp", "/var/tmp", str(tmp_path.parent)):
        ran = subprocess.run([*container(tmp_path), "touch", f"{place}/x"], capture_output=True, text=True)
        assert "Read-only file system" in ran.stderr
    return tmp_path


def errors(gateway: GatewayProcess) -> list[Mapping[str, str]]:
    """What it logged as an error."""
    return [line for line in log_lines(gateway) if line["level"] in ("error", "critical")]


@pytest.mark.usefixtures("processes")
@pytest.mark.spec("SAFE-67")
def test_two_workers_deliver(folder: Path) -> None:
    with (
        Subscriber() as subscriber,
        Contained(config_for(subscriber), folder, None, "--workers", "2") as gateway,
    ):
        gateway.wait_until(lambda: both(gateway), what="two workers")
        send(gateway, range(20))
        gateway.wait_until(lambda: numbers(subscriber) == set(range(20)), what="all events")
        assert gateway.stop() == 0
        assert not errors(gateway)


@pytest.mark.area(name="spark_container")
@pytest.mark.usefixtures("own_spark")
@pytest.mark.spec("SAFE-67")
@pytest.mark.timeout(600)
def test_two_workers_fill_a_table(folder: Path) -> None:
    table = f"  table: {{subscriber: {{spark: {{path: {folder}/table, trigger_interval_s: 0.2}}}}}}\n"
    with (
        Subscriber() as subscriber,
        Contained(config_for(subscriber) + table, folder, None, "--workers", "2") as gateway,
    ):
        gateway.wait_until(lambda: both(gateway), what="two workers")
        send(gateway, range(20))
        gateway.wait_until(lambda: gateway.trigger("table")["delivered"] == 20, 240, what="a table of all events")
        assert gateway.stop() == 0
        assert not errors(gateway)
    assert not list((folder / "data").rglob("scratch")), "Spark's temporary files are gone"
