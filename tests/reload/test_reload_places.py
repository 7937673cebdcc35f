"""An ingress that a reload moves to another place of its list: what it is called, and whose address it takes over."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway_testing.suites.kit import until

from gateway_core.config.config_read import read_config
from gateway_core.config.registry import Registry
from gateway_core.contract.options import redacted
from gateway_core.contract.owner import Owner, within
from gateway_core.contract.settings import Settings
from gateway_core.runtime.gateway import Gateway
from tests.in_process import started
from tests.mqtt.frames import CONNACK, SUBACK, packet
from tests.mqtt.scripted import ScriptedServer
from tests.reload.test_reload_order import reload
from tests.websocket.rig import EVENT, client, free_port

pytestmark = [pytest.mark.anyio, pytest.mark.spec("SAFE-185")]


def write(file: Path, *ingress: dict[str, Any]) -> dict[str, Any]:
    config = {"brokers": {"b": {"ingress": list(ingress)}}}
    file.write_text(json.dumps(config))
    return config


def gateway_of(file: Path) -> Gateway:
    settings = Settings(data_dir=file.parent / "data", admin="off", drain_timeout_s=5, reload="signal")
    registry = Registry.installed()
    read = read_config([file], settings, registry)
    return Gateway(read.loaded.config, settings, registry, read=read)


def websocket(port: int, path: str = "/", **options: Any) -> dict[str, Any]:
    return {"websocket": {"listen": f"127.0.0.1:{port}", "path": path, "acknowledge": "required", **options}}


async def test_one_that_changes_and_moves_takes_over_its_own_address(tmp_path: Path) -> None:
    file, port, other = tmp_path / "tidegate.yaml", free_port(), free_port()
    write(file, websocket(port, "/kept"), websocket(port, "/moved"))
    async with started(gateway := gateway_of(file)):
        config = write(
            file, websocket(other), websocket(port, "/kept"), websocket(port, "/moved", max_unacknowledged=5)
        )
        assert await reload(gateway, file, config) == []
        for path in ("kept", "moved"):
            async with client(f"ws://127.0.0.1:{port}/{path}") as sender:
                await sender.send(EVENT % path)
                with anyio.fail_after(30):
                    assert json.loads(await sender.recv()) == {"ack": 1}


@pytest.mark.parametrize(
    "more", [{"limits": {"max_connections": 7}}, {"hosts": ["a.example"]}], ids=["limits", "hosts"]
)
async def test_one_whose_listener_changes_listens_again(tmp_path: Path, more: dict[str, Any]) -> None:
    file, port = tmp_path / "tidegate.yaml", free_port()
    write(file, websocket(port))
    async with started(gateway := gateway_of(file)):
        assert await reload(gateway, file, write(file, websocket(free_port()), websocket(port, **more))) == []
        name = "a.example" if "hosts" in more else "localhost"
        async with client(f"ws://{name}:{port}/", host="127.0.0.1", port=port) as sender:
            await sender.send(EVENT % 1)
            with anyio.fail_after(30):
                assert json.loads(await sender.recv()) == {"ack": 1}


async def test_the_log_names_the_place_that_it_has_now(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "tidegate.yaml"
    with ScriptedServer() as server:
        server.answers = {1: packet(CONNACK, b"\0\0\0"), 8: packet(SUBACK, b"\0\1\0\1")}
        mqtt = {"mqtt": {"server": f"127.0.0.1:{server.port}", "topic": "t"}}
        write(file, mqtt)
        async with started(gateway := gateway_of(file)):
            assert await reload(gateway, file, write(file, websocket(free_port()), mqtt)) == []
            with caplog.at_level(logging.INFO, "tidegate"):
                server.leave()
                await until(lambda: "lost its connection" in caplog.text, "the loss")
    assert "brokers.b.ingress[1] lost its connection" in caplog.text
    assert "brokers.b.ingress[0] lost its connection" not in caplog.text


def test_a_part_follows_and_a_status_gets_a_plain_text() -> None:
    owner = Owner("brokers.b.ingress[0]")
    part = within(owner, ".authenticate[0]")
    owner.moved("brokers.b.ingress[1]")
    assert "%s" % part == f"{part}" == "brokers.b.ingress[1].authenticate[0]"  # noqa: UP031 as the log writes it
    status = redacted({"owner": owner})["owner"]
    assert (status, type(status)) == ("brokers.b.ingress[1]", str)
