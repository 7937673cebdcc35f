"""What events hold is for the gateway's own user only."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from gateway_testing import GatewayProcess

from tests import web
from tests.ledger import free_port

CONFIG = """
brokers:
  default:
    ingress:
      - http: {listen: "127.0.0.1:0"}
triggers:
  lost:
    subscriber: http://127.0.0.1:PORT
    delivery: {retry: 0}
"""

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.spec("SAFE-44")]


def run(tmp_path: Path) -> GatewayProcess:
    return GatewayProcess(CONFIG.replace("PORT", str(free_port())), tmp_path)


def send(gateway: GatewayProcess) -> None:
    headers = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}
    assert web.post(gateway.ingress(), headers=headers, content=b"secret", verify=False).status_code == 202
    gateway.wait_until(lambda: gateway.trigger("lost")["dead_lettered"])


def open_to_others(folder: Path) -> list[str]:
    return [
        f"{path.relative_to(folder.parent)} {stat.filemode(path.lstat().st_mode)}"
        for path in (folder, *folder.rglob("*"))
        if path.lstat().st_mode & 0o077
    ]


def test_everything_in_the_data_folder_is_private(tmp_path: Path) -> None:
    with run(tmp_path) as gateway:
        send(gateway)
        url = f"{gateway.admin_url}/api/v1/triggers/lost/pause"
        assert web.post(url, verify=False, headers=gateway.admin_headers).is_success
        names = {p.name for p in gateway.data_dir.rglob("*")}
        assert {
            "gateway.json",
            "admin.token",
            "audit.jsonl",
            "shard-000.db",
            "shard-000.db-wal",
            "meta.json",
            "default.jsonl",
            "paused.json",
        } <= names
        assert open_to_others(gateway.data_dir) == []
        assert "open to other users" not in gateway.log()


def test_what_an_older_version_left_open_is_closed_and_said(tmp_path: Path) -> None:
    gateway = run(tmp_path)
    with gateway:
        send(gateway)
        gateway.stop()
        for path in (gateway.data_dir, *gateway.data_dir.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        gateway.start()
        # the data directory itself comes last, once its address file is there
        gateway.wait_until(lambda: open_to_others(gateway.data_dir) == [], what="a data directory of its own")
        assert "dead-letter was open to other users: took 2 files and folders from them" in gateway.log()


def test_what_is_beside_it_stays_as_it_is(tmp_path: Path) -> None:
    gateway = run(tmp_path)
    gateway.data_dir.mkdir(mode=0o755)
    mine = gateway.data_dir / "for-others"
    mine.touch(mode=0o644)
    with gateway:
        send(gateway)
    assert stat.S_IMODE(mine.stat().st_mode) == 0o644
    assert stat.S_IMODE(gateway.data_dir.stat().st_mode) == 0o755
    for folder in ("log", "dead-letter"):
        assert open_to_others(gateway.data_dir / folder) == []
