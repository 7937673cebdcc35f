"""The plugin `reload`: when it starts, and a gateway that lacks it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from gateway_admin import plugin as admin_plugin
from gateway_workers import plugin as workers_plugin

from gateway_core.config.config_read import read_config
from gateway_core.config.registry import Registry
from gateway_core.contract.settings import Settings
from gateway_core.runtime.gateway import Gateway
from tests import web


@pytest.mark.anyio
async def test_without_it_nothing_changes_the_config(tmp_path: Path) -> None:
    file = tmp_path / "tidegate.yaml"
    file.write_text("{}\n")
    registry = Registry()
    registry.add("admin", admin_plugin)
    registry.add("workers", workers_plugin)
    settings = Settings(data_dir=tmp_path / "data", admin="127.0.0.1:0", drain_timeout_s=1)
    read = read_config([file], settings, registry)
    gateway = Gateway(read.loaded.config, settings, registry, read=read)
    assert gateway.reloader is None
    stop, started = anyio.Event(), anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(gateway.run, stop, started)
        await started.wait()
        token = (settings.data_dir / "admin.token").read_text().strip()
        url, headers = gateway.addresses["admin"], {"authorization": f"Bearer {token}"}
        async with web.async_client(base_url=url, headers=headers, trust_env=False, verify=False) as client:
            refused = await client.post("/api/v1/reload")
            assert (refused.status_code, "the plugin `reload` is not installed" in refused.text) == (409, True)
            assert (await client.get("/status")).json()["config"]["generation"] == 1
        stop.set()


SIGNALLED = """
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from gateway_core.config.registry import Registry
from gateway_core.contract.hookspecs import hookimpl
from gateway_core.contract.services import RunningService, Service
from gateway_core.runtime.run import run
from gateway_core.contract.settings import Settings
from gateway_reload import plugin

class Signals(RunningService):
    async def start(self, tasks):
        os.kill(os.getpid(), signal.SIGHUP)
        Path(sys.argv[1]).write_text("triggers: {late: {subscriber: 'none://'}}")

    def reached(self, wanted):
        print(*wanted.triggers, "reached", flush=True)

registry = Registry()
service = Service("a", "A test's.", lambda gateway: Signals())
registry.add("a", SimpleNamespace(gateway_services=hookimpl(lambda: [service])))
registry.add("reload", plugin)
sys.exit(run([sys.argv[1]], Settings(data_dir=Path(sys.argv[2]), reload="signal"), registry=registry))
"""


@pytest.mark.usefixtures("processes")
def test_a_signal_while_another_service_starts_reloads_once_all_have(tmp_path: Path) -> None:
    file = tmp_path / "tidegate.yaml"
    file.write_text("{}\n")
    command = [sys.executable, "-c", SIGNALLED, str(file), str(tmp_path / "data")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"reached\n"
        assert b"the one before stays in force" in process.stderr.readline()
        process.terminate()
        assert process.wait(30) == 0
