"""Several gateways on one machine: each has its own admin API, and its commands find it."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.cli.test_cli_running import CONFIG, eventually
from tests.command_line import tidegate

COMMAND = [sys.executable, "-c", "from gateway_core.cli import main; main()"]
Start = Callable[..., subprocess.Popen[str]]


def environment(**more: str) -> dict[str, str]:
    return {**{k: v for k, v in os.environ.items() if not k.startswith("TIDEGATE_")}, **more}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts `tidegate run --data-dir FOLDER` and waits until it runs."""
    running: list[subprocess.Popen[str]] = []
    (tmp_path / "tidegate.yaml").write_text(CONFIG.format(port=0))

    def begin(folder: str, *flags: str, wait: bool = True, **env: str) -> subprocess.Popen[str]:
        command = [*COMMAND, "run", "--data-dir", folder, *flags]
        process = subprocess.Popen(command, cwd=tmp_path, env=environment(**env), stderr=subprocess.PIPE, text=True)
        running.append(process)
        if wait:
            file = tmp_path / folder / "gateway.json"
            eventually(lambda: file.exists() or process.poll() is not None)
            assert process.poll() is None, process.communicate()[1]
        return process

    yield begin
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()


def pid_of(tmp_path: Path, *flags: str, **env: str) -> int:
    ran = tidegate("status", "--json", *flags, env=env, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    return int(json.loads(ran.stdout)["pid"])


@pytest.mark.spec("SAFE-02")
@pytest.mark.usefixtures("processes")
def test_two_gateways_with_default_settings_run_side_by_side(start: Start, tmp_path: Path) -> None:
    with ExitStack() as stack:
        with suppress(OSError):  # somebody else may have it already
            stack.enter_context(socket.create_server(("127.0.0.1", 9080)))
        one, two = start("one"), start("two")
        assert pid_of(tmp_path, "--data-dir", "one") == one.pid
        assert pid_of(tmp_path, "--data-dir", "two") == two.pid
        two.send_signal(signal.SIGTERM)
        log = two.communicate(timeout=30)[1]
    assert two.returncode == 0
    assert "can't listen on 127.0.0.1:9080" in log
    assert "TIDEGATE_ADMIN" in log
    assert not (tmp_path / "two/admin.sock").exists()


@pytest.mark.spec("SAFE-02")
@pytest.mark.usefixtures("processes")
def test_a_named_address_that_is_taken_is_a_fault_with_its_setting(start: Start, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        process = start("one", wait=False, TIDEGATE_ADMIN=f"127.0.0.1:{taken.getsockname()[1]}")
        err = process.communicate(timeout=30)[1]
    assert process.returncode == 3
    assert "Address already in use" in err
    assert "--admin or TIDEGATE_ADMIN" in err


@pytest.mark.spec("SAFE-02")
def test_check_connect_tries_the_address(tmp_path: Path) -> None:
    (tmp_path / "tidegate.yaml").write_text(CONFIG.format(port=0))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        env = {"TIDEGATE_ADMIN": f"127.0.0.1:{taken.getsockname()[1]}"}
        ran = tidegate("check", "--connect", "--json", env=env, cwd=tmp_path)
    (probe,) = [p for p in json.loads(ran.stdout)["probes"] if p["path"] == "admin"]
    assert (ran.returncode, probe["ok"]) == (1, False)
    assert "TIDEGATE_ADMIN" in probe["reason"]
    with ExitStack() as stack:
        with suppress(OSError):
            stack.enter_context(socket.create_server(("127.0.0.1", 9080)))
        ran = tidegate("check", "--connect", "--json", cwd=tmp_path)
        (probe,) = [p for p in json.loads(ran.stdout)["probes"] if p["path"] == "admin"]
        assert (ran.returncode, probe["ok"]) == (0, True)  # `run` starts, too
        assert "socket" in probe["reason"]


@pytest.mark.spec("SAFE-02")
@pytest.mark.usefixtures("processes")
def test_the_socket_is_its_users_own_and_needs_no_token(start: Start, tmp_path: Path) -> None:
    gateway = start("one", "--admin", "127.0.0.1:0", TIDEGATE_ADMIN_TOKEN="hush")
    assert stat.S_IMODE((tmp_path / "one/admin.sock").stat().st_mode) == 0o600
    assert pid_of(tmp_path, "--data-dir", "one") == gateway.pid  # which has no token
    url = json.loads((tmp_path / "one/gateway.json").read_text())["admin"]
    refused = tidegate("status", "--admin", url, cwd=tmp_path)
    assert refused.returncode == 1
    assert "requires a token" in refused.stderr
    (tmp_path / "one/admin.sock").unlink()  # as where a file system has none: then by the address
    assert pid_of(tmp_path, "--data-dir", "one", TIDEGATE_ADMIN_TOKEN="hush") == gateway.pid


@pytest.mark.spec("SAFE-02")
@pytest.mark.usefixtures("processes")
def test_without_an_address_the_socket_does_in_a_folder_of_any_length(start: Start, tmp_path: Path) -> None:
    folder = "/".join(["a-folder-whose-name-is-rather-long"] * 4)
    gateway = start(folder, "--admin", "socket")
    assert "admin" not in json.loads((tmp_path / folder / "gateway.json").read_text())
    assert pid_of(tmp_path, "--data-dir", folder) == gateway.pid
    assert pid_of(tmp_path, "--data-dir", str(tmp_path / folder)) == gateway.pid
    gateway.kill()
    gateway.wait()
    again = start(folder, "--admin", "socket", wait=False)  # over the socket that is left
    eventually(lambda: json.loads((tmp_path / folder / "gateway.json").read_text())["pid"] == again.pid)
    assert pid_of(tmp_path, "--data-dir", folder) == again.pid


@pytest.mark.spec("SAFE-02")
@pytest.mark.usefixtures("processes")
def test_a_second_gateway_of_one_data_directory_leaves_the_first_alone(start: Start, tmp_path: Path) -> None:
    (tmp_path / "bridge.yaml").write_text(
        'bridges: {b: {source: {http: {listen: "127.0.0.1:0"}}, sink: {file: {path: out.jsonl}}}}\n'
    )
    first = start("one", "bridge.yaml", "--admin", "127.0.0.1:0")
    second = start("one", "bridge.yaml", "--admin", "127.0.0.1:0", wait=False)
    err = second.communicate(timeout=30)[1]
    assert (second.returncode, "another gateway runs with the data directory" in err) == (3, True)
    assert pid_of(tmp_path, "--data-dir", "one") == first.pid


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.usefixtures("processes")
def test_a_data_directory_whose_name_is_not_utf_8_is_refused(start: Start, workers: str) -> None:
    refused = start("d\udcff", "--admin", "127.0.0.1:0", "--workers", workers, wait=False)
    err = refused.communicate(timeout=30)[1]
    assert (refused.returncode, "data directory is not UTF-8" in err, r"d\udcff; choose" in err) == (3, True, True)
