"""Files of credentials that are removed while a gateway runs: what they let in stays out, and everything else keeps
working."""

from __future__ import annotations

import hmac
import os
from pathlib import Path
from typing import Any

import pytest
from gateway_auth.keys import add_key
from gateway_auth.passwords import hash_of, set_password
from gateway_options import renewed
from gateway_testing.suites import Kit

from gateway_core.contract.errors import Overloaded, Refused, StartError
from tests.auth.rig import basic, ingress
from tests.auth.signing import Bench

pytestmark = [pytest.mark.anyio, pytest.mark.spec("HM-17")]


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return Kit(tmp_path)


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewed, "CHECK_S", 0.0)


@pytest.mark.parametrize("name", ["api_key", "basic"])
async def test_nobody_gets_in_by_a_file_that_was_removed(
    kit: Kit, tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Senders are asked to try again, so that an accident loses nothing."""
    file = tmp_path / "credentials.json"
    if name == "api_key":
        header = ("x-api-key", add_key(file, "billing")[1])
    else:
        set_password(file, "ann", hash_of(b"pass-word", 4))
        header = basic("ann", "pass-word")
    async with ingress(kit, {name: {"file": file}}) as http:
        assert await http.status(header) == 202
        file.rename(tmp_path / "aside")
        await http.until(503, header)
        assert [await http.status(header) for _ in range(5)] == [503] * 5
        assert await http.status() == 401
        assert caplog.text.count("was removed") == 1
        assert f"{file} was removed" in caplog.text
        (tmp_path / "aside").rename(file)
        await http.until(202, header)


@pytest.mark.parametrize("name", ["api_key", "basic"])
@pytest.mark.parametrize("later", [False, True])
async def test_a_pipe_in_the_place_of_a_file_holds_nothing(kit: Kit, tmp_path: Path, name: str, later: bool) -> None:
    file = tmp_path / "credentials.json"
    if not later:
        os.mkfifo(file)
        with pytest.raises(BaseException) as failed:
            async with ingress(kit, {name: {"file": file}}):
                pass
        assert "not a regular file" in repr(failed.value)
        return
    add_key(file, "billing") if name == "api_key" else set_password(file, "ann", hash_of(b"pass-word", 4))
    async with ingress(kit, {name: {"file": file}}) as http:
        file.unlink()
        os.mkfifo(file)
        for _ in range(3):
            assert await http.status(("x-api-key", "tgk_x"), basic("ann", "wrong")) == 401


def _headers(secret: str) -> dict[str, str]:
    return {"x-sig": hmac.new(secret.encode(), b"{}", "sha256").hexdigest()}


OLD, NEW, OWN = "an-old-secret-of-ours", "a-new-secret-of-ours", "a-secret-in-the-config"


def comes_in(bench: Bench, secret: str) -> bool | str:
    try:
        return bench.subject(_headers(secret), b"{}") is not None
    except Refused:
        return False
    except Overloaded:
        return "later"


def looked(bench: Bench, *secrets: str) -> list[bool | str]:
    """Who comes in after the files were looked at a few times."""
    for _ in range(3):
        comes_in(bench, "nobody")
    return [comes_in(bench, secret) for secret in secrets]


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    found = [tmp_path / "old", tmp_path / "new"]
    for path, secret in zip(found, (OLD, NEW), strict=True):
        path.write_text(secret)
    return found


def bench_of(files: list[Path], **more: Any) -> Bench:
    return Bench("hmac", {"header": "x-sig", "secret_files": [str(path) for path in files], **more})


def test_a_secret_ends_with_its_file_and_the_others_go_on(files: list[Path], caplog: pytest.LogCaptureFixture) -> None:
    bench = bench_of(files)
    assert looked(bench, OLD, NEW) == [True, True]
    files[0].unlink()
    assert looked(bench, OLD, NEW) == [False, True]
    assert len([r for r in caplog.records if "was removed" in r.getMessage()]) == 1
    files[1].write_text(OWN)  # the next rotation
    assert looked(bench, OLD, NEW, OWN) == [False, False, True]
    files[1].unlink()
    assert looked(bench, OLD, NEW, OWN) == ["later"] * 3
    files[0].write_text(NEW)
    assert looked(bench, OLD, NEW) == [False, True]
    assert not any(secret in caplog.text for secret in (OLD, NEW, OWN))


def test_secrets_in_the_config_outlive_the_files(files: list[Path]) -> None:
    bench = bench_of(files, secrets=[OWN])
    for path in files:
        path.unlink()
    assert looked(bench, OLD, NEW, OWN) == [False, False, True]


def test_a_broken_file_blocks_no_other(files: list[Path], caplog: pytest.LogCaptureFixture) -> None:
    bench = bench_of(files)
    files[0].write_text("")
    files[1].write_text(OWN)
    assert looked(bench, OLD, NEW, OWN) == [True, False, True]
    assert len([r for r in caplog.records if "can't be used" in r.getMessage()]) == 1


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_a_pipe_or_a_folder_as_a_secret_holds_nothing(files: list[Path], kind: str) -> None:
    bench = bench_of(files)
    files[0].unlink()
    os.mkfifo(files[0]) if kind == "pipe" else files[0].mkdir()
    assert looked(bench, OLD, NEW) == [True, True], "no removal: whoever made this wants something else"
    with pytest.raises(StartError, match="not a regular file"):
        bench_of(files)
