"""A gateway follows its config files, whenever they change."""

from __future__ import annotations

from pathlib import Path

import pytest
from gateway_testing import GatewayProcess

MODULE = """
from pathlib import Path

from gateway_core.contract.hookspecs import hookimpl
from gateway_core.contract.services import RunningService, Service


class Editor(RunningService):
    def reached(self, wanted):
        file = Path("tidegate.yaml")
        if "second" in wanted.triggers and "third" not in file.read_text():
            with file.open("a") as config:
                config.write('  third: {subscriber: "http://127.0.0.1:9/"}\\n')


@hookimpl
def gateway_services():
    return [Service("editor", "Changes the config's file when a reload has read it.", lambda gateway: Editor())]
"""
CONFIG = 'brokers: {default: {ingress: [http: {listen: "127.0.0.1:0"}]}}\ntriggers:\n'


@pytest.mark.usefixtures("processes")
def test_a_change_during_a_reload_is_not_missed(tmp_path: Path) -> None:
    info = tmp_path / "site" / "tidegate_editor-0.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tidegate-editor\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text("[tidegate]\neditor = tidegate_editor\n")
    (tmp_path / "site" / "tidegate_editor.py").write_text(MODULE)
    first = CONFIG + '  first: {subscriber: "http://127.0.0.1:9/"}\n'
    with GatewayProcess(first, tmp_path, {"PYTHONPATH": str(tmp_path / "site")}) as gateway:
        gateway.config.write_text(first + '  second: {subscriber: "http://127.0.0.1:9/"}\n')
        gateway.wait_until(
            lambda: [t["name"] for t in gateway.status()["triggers"]] == ["first", "second", "third"],
            30,
            "both changes",
        )
        assert gateway.stop() == 0
