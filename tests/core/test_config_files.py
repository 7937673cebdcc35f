"""Config files that a third party's plugin keeps in the data directory, and services that refuse a reload."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from gateway_reload.service import ReloadService

from gateway_core.config.config_read import read_config, registry_of
from gateway_core.config.registry import Registry
from gateway_core.contract.errors import StartError
from gateway_core.contract.hookspecs import hookimpl
from gateway_core.contract.services import RunningService, Service
from gateway_core.contract.settings import Settings
from gateway_core.runtime.gateway import Gateway

pytestmark = pytest.mark.anyio

TRIGGER = "triggers: {%s: {broker: none, subscriber: 'http://127.0.0.1:1/'}}\n"


class Kept:
    """A plugin that keeps the config file `kept.yaml` in the data directory."""

    def __init__(self) -> None:
        self.fault = ""
        self.refusal = ""

    def files(self, settings: Settings) -> list[Path]:
        if self.fault:
            raise StartError(self.fault)
        return [file] if (file := settings.data_dir / "kept.yaml").exists() else []

    def registry(self) -> Registry:
        kept = self

        class Refusing(RunningService):
            def reloading(self, loaded: object) -> None:
                if kept.refusal:
                    raise StartError(kept.refusal)

        def gateway_config_files() -> list[Callable[[Settings], list[Path]]]:
            return [self.files]

        def gateway_services() -> list[Service]:
            return [Service("refusing", "A test's.", lambda gateway: Refusing())]

        hooks = SimpleNamespace(
            gateway_config_files=hookimpl(gateway_config_files), gateway_services=hookimpl(gateway_services)
        )
        made = Registry.installed()
        made.add("kept", hooks)
        return made


def written(folder: Path, name: str) -> Path:
    file = folder / f"{name}.yaml"
    file.write_text(TRIGGER % name)
    return file


async def test_the_files_of_a_plugin_are_part_of_the_config(tmp_path: Path) -> None:
    kept, settings = Kept(), Settings(data_dir=tmp_path, admin="off")
    registry, file = kept.registry(), written(tmp_path, "given")
    read = read_config([file], settings, registry)
    assert [*read.loaded.config.triggers] == ["given"]
    written(tmp_path, "kept")
    assert [*read_config([file], settings, registry).loaded.config.triggers] == ["given", "kept"]
    kept.fault = "kept.yaml can't be read"
    with pytest.raises(StartError, match=r"kept.yaml can't be read"):
        read_config([file], settings, registry)


async def test_a_plugin_can_refuse_a_reload(tmp_path: Path) -> None:
    """By its files, or by its service."""
    kept, settings = Kept(), Settings(data_dir=tmp_path, admin="off")
    read = read_config([written(tmp_path, "given")], settings, kept.registry())
    gateway = Gateway(read.loaded.config, settings, registry_of(read), read=read)
    reloader = gateway.services["reload"]
    assert isinstance(reloader, ReloadService)
    kept.fault = "kept.yaml can't be read"
    assert [fault.message for fault in await reloader.reload()] == ["kept.yaml can't be read"]
    kept.fault, kept.refusal = "", "not now"
    assert [fault.message for fault in await reloader.reload()] == ["not now"]
    assert gateway.status().config.error == "not now"


@pytest.mark.spec("SAFE-130")
@pytest.mark.parametrize("text", ["", "triggers: {}\n"])
async def test_a_file_that_an_editor_has_emptied_changes_nothing(tmp_path: Path, text: str) -> None:
    """An editor may empty a file before it writes it."""
    kept, settings, file = Kept(), Settings(data_dir=tmp_path / "data", admin="off"), tmp_path / "tidegate.yaml"
    file.write_text("brokers: {default: {ingress: [{http: {listen: '127.0.0.1:0'}}]}}\n")
    read = read_config([file], settings, kept.registry())
    gateway = Gateway(read.loaded.config, settings, registry_of(read), read=read)
    reloader = gateway.services["reload"]
    assert isinstance(reloader, ReloadService)
    file.write_text(text)
    (fault,) = await reloader.reload()
    assert fault.message == "the config no longer has a broker or a bridge"
    assert (fault.file, [*gateway.config.brokers]) == (str(file), ["default"])
