"""A disk that fails to take what was written: nothing that it answers later is believed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from gateway_testing import GatewayProcess, Received, Subscriber

from tests import web
from tests.servers_shared import need


@pytest.fixture(autouse=True)
def linux() -> None:
    need(sys.platform == "linux", "LD_PRELOAD is Linux's")


SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
static int sync_with(const char *name, int fd) {
    if (access(getenv("FAILING_DISK"), F_OK) == 0) { errno = EIO; return -1; }
    return ((int (*)(int))dlsym(RTLD_NEXT, name))(fd);
}
int fsync(int fd) { return sync_with("fsync", fd); }
int fdatasync(int fd) { return sync_with("fdatasync", fd); }
"""
CONFIG = """
brokers: {default: {ingress: [{http: {listen: "127.0.0.1:0"}}]}}
triggers:
  taker:
    subscriber: URL
    delivery: {retry: 1000, backoff_delay_s: 0.05, backoff_max_s: 0.2}
"""


@pytest.fixture
def failing(tmp_path: Path) -> dict[str, str]:
    """The environment of a process whose disk fails while the file `failing` is there."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    assert compiler, "a C compiler is needed: nothing else makes fsync fail"
    (tmp_path / "shim.c").write_text(SHIM)
    command = [compiler, "-shared", "-fPIC", "-o", str(tmp_path / "shim.so"), str(tmp_path / "shim.c"), "-ldl"]
    subprocess.run(command, check=True)
    return {"LD_PRELOAD": str(tmp_path / "shim.so"), "FAILING_DISK": str(tmp_path / "failing")}


def send(gateway: GatewayProcess, id: int) -> httpx.Response:
    headers = {"ce-id": str(id), "ce-source": "/s", "ce-type": "t", "ce-specversion": "1.0"}
    return web.post(gateway.ingress(), headers=headers, content=b"x" * 5000, verify=False)


@pytest.mark.spec("SAFE-55")
@pytest.mark.usefixtures("processes")
def test_after_a_failed_sync_nothing_is_taken_until_a_restart(tmp_path: Path, failing: dict[str, str]) -> None:
    up, got = [False], set()

    def decide(received: Received) -> int:
        if up[0]:
            got.add(int(received.headers["ce-id"]))
        return 202 if up[0] else 503

    with (
        Subscriber(decide=decide) as s,
        GatewayProcess(CONFIG.replace("URL", s.url), tmp_path, failing) as gateway,
    ):
        accepted = {id for id in range(50) if send(gateway, id).status_code == 202}
        assert len(accepted) == 50
        (tmp_path / "failing").touch()
        assert send(gateway, 1000).status_code == 503
        (tmp_path / "failing").unlink()
        for id in range(1001, 1010):  # the disk says that all is well
            answer = send(gateway, id)
            assert (answer.status_code, "restart" in answer.json()["detail"]) == (503, True)
            assert "retry-after" in answer.headers
        assert "failed to store written data" in gateway.status()["brokers"][0]["reason"]
        assert gateway.admin("/health/ready").status_code == 503
        up[0] = True
        gateway.wait_until(lambda: accepted <= got, 60, "the deliveries")
        wal = gateway.data_dir / "log" / "default" / "shard-000.db-wal"
        there = wal.read_bytes()
        assert gateway.stop() == 0
        assert wal.read_bytes() == there, "nothing was copied from memory that the disk failed to take"
        got.clear()
        gateway.start()
        assert send(gateway, 2000).status_code == 202
        gateway.wait_until(lambda: {*accepted, 2000} <= got, 60, "the deliveries: their cursors were not kept")
        assert os.path.getsize(wal) > 0
