"""The token of a gateway, tokens made from it, and how commands find them."""

from __future__ import annotations

import json
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_api.tokens import Holder, Tokens, derived, read_token, token_file, write_token
from gateway_testing import GatewayProcess

from tests import command_line, web

CONFIG = 'brokers: {default: {ingress: [{http: {listen: "127.0.0.1:0"}}]}}\n'


@pytest.mark.spec("AD-01")
def test_the_first_start_makes_a_private_token(tmp_path: Path) -> None:
    Tokens(tmp_path / "data").refresh()
    file = token_file(tmp_path / "data")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    first = read_token(tmp_path / "data")
    assert len(first) >= 43, "256 bits"
    tokens = Tokens(tmp_path / "data")
    assert tokens.holder(first) == Holder("admin token", "admin")
    for wrong in ("", "x", first[:-1], first + "x", f"{first}\n", "ä" * 43, "admin.x.0.", "admin.x.0.é"):
        assert tokens.holder(wrong) is None, wrong


@pytest.mark.spec("AD-03")
def test_a_new_token_counts_at_once_and_ends_the_others(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    tokens.refresh()
    first = read_token(tmp_path)
    other = derived(first, "viewer", "prometheus")
    assert tokens.holder(other) == Holder("token prometheus", "viewer")
    second = write_token(tmp_path)
    assert [tokens.holder(t) is not None for t in (first, other, second)] == [False, False, True]
    token_file(tmp_path).unlink()
    assert tokens.holder(second) is None
    assert tokens.holder(read_token(tmp_path)) is not None


@pytest.mark.spec("AD-03")
def test_a_token_for_others_can_not_be_altered_and_ends(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path, now_s=lambda: 1000.0)
    tokens.refresh()
    own = read_token(tmp_path)
    good = derived(own, "viewer", "anna", 1001)
    assert tokens.holder(good) == Holder("token anna", "viewer", 1001)
    assert tokens.holder(derived(own, "viewer", "anna", 1000)) is None
    assert tokens.holder(derived("x" * 43, "viewer", "anna")) is None
    for changed in (good.replace("viewer", "admin"), good.replace("anna", "bert"), good.replace("1001", "1002")):
        assert tokens.holder(changed) is None
    assert tokens.holder(good.replace("1001", "9" * 5000)) is None
    assert tokens.holder(good.replace("1001", "²")) is None


@pytest.mark.spec("AD-01", "AD-03")
def test_a_token_from_the_environment_takes_the_place_of_the_files(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path, own="sesame")
    tokens.refresh()
    assert tokens.holder("sesame") == Holder("admin token", "admin")
    assert tokens.holder(read_token(tmp_path)) is None
    assert tokens.holder(derived(read_token(tmp_path), "viewer", "x")) == Holder("token x", "viewer")
    assert tokens.holder(derived("sesame", "viewer", "x")) is None, "a weak one could be guessed from it"


@pytest.mark.spec("AD-01")
def test_a_file_that_holds_no_token_lets_nobody_in(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    token_file(tmp_path).write_text("\n")
    tokens = Tokens(tmp_path)
    assert [tokens.holder(t) for t in ("", "\n", "x")] == [None, None, None]
    assert caplog.text.count("no token of the admin API") == 1
    token_file(tmp_path).write_text("y" * 43)
    token_file(tmp_path).chmod(0o644)
    assert tokens.holder("y" * 43) is not None
    assert stat.S_IMODE(token_file(tmp_path).stat().st_mode) == 0o600
    assert "was open to other users" in caplog.text


def tidegate(folder: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return command_line.tidegate(*arguments, env=env, cwd=folder)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(CONFIG, tmp_path_factory.mktemp("gateway")) as running:
        yield running


@pytest.mark.spec("AD-03", "AD-05")
@pytest.mark.usefixtures("processes")
def test_the_command_makes_tokens(gateway: GatewayProcess, tmp_path: Path) -> None:
    def token(*options: str) -> str:
        done = tidegate(tmp_path, "admin", "token", "--data-dir", str(gateway.data_dir), *options)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def status(token: str, path: str = "/metrics") -> int:
        headers = {"authorization": f"Bearer {token}"}
        return web.get(gateway.admin_url + path, headers=headers, verify=False).status_code

    first, other = token(), token("--name", "prometheus", "--role", "metrics")
    assert [status(first), status(other), status(other, "/status")] == [200, 200, 403]
    ended = token("--name", "bert", "--days", "0")
    assert status(ended) == 401
    second = token("--rotate")
    assert [status(t) for t in (first, other, second)] == [401, 401, 200]
    recorded = [json.loads(line) for line in (gateway.data_dir / "audit/audit.jsonl").read_text().splitlines()]
    changes = [line["what"] for line in recorded if line["result"] == "done"]
    assert changes == ["token.new", "token.new", "token.rotate"]
    refused = tidegate(tmp_path, "admin", "token", "--role", "viewer")
    assert (refused.returncode, "needs a --name" in refused.stderr) == (2, True)
    missing = tidegate(tmp_path, "admin", "token", "--data-dir", "nowhere")
    assert (missing.returncode, "there is no token" in missing.stderr) == (1, True)


@pytest.mark.spec("AD-05")
@pytest.mark.usefixtures("processes")
def test_commands_find_the_token_and_send_it_to_no_other_gateway(gateway: GatewayProcess, tmp_path: Path) -> None:
    url, data = gateway.admin_url, str(gateway.data_dir)
    sock = gateway.data_dir / "admin.sock"
    assert tidegate(tmp_path, "status", "--admin", url, "--data-dir", data).returncode == 0
    sock.rename(sock.with_suffix(".away"))  # as where a file system has none
    try:
        assert tidegate(tmp_path, "status", "--data-dir", data).returncode == 0
        assert tidegate(tmp_path, "status", "--admin", url, "--data-dir", data).returncode == 0
        refused = tidegate(tmp_path, "status", "--admin", url.replace("127.0.0.1", "localhost"), "--data-dir", data)
        assert (refused.returncode, "requires a token" in refused.stderr) == (1, True)
    finally:
        sock.with_suffix(".away").rename(sock)
    (tmp_path / "token").write_text(derived(read_token(gateway.data_dir), "viewer", "file") + "\n")
    assert tidegate(tmp_path, "status", "--admin", url, TIDEGATE_ADMIN_TOKEN_FILE="token").returncode == 0
    denied = tidegate(tmp_path, "reload", "--admin", url, TIDEGATE_ADMIN_TOKEN_FILE="token")
    assert (denied.returncode, "this needs the role operator; token file has the role viewer" in denied.stderr) == (
        1,
        True,
    )
    missing = tidegate(tmp_path, "status", "--admin", url, TIDEGATE_ADMIN_TOKEN_FILE="nowhere")
    assert (missing.returncode, "can't read the token" in missing.stderr) == (1, True)
