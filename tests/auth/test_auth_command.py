"""`tidegate auth`: files of keys and passwords."""

from __future__ import annotations

import hashlib
import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from gateway_auth.passwords import parse_hash, verify

from tests.command_line import tidegate


def new(file: Path, name: str, *options: str) -> str:
    """Makes a key and returns it."""
    done = tidegate("auth", "key", "new", name, "--file", file, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout.removesuffix("\n")


@pytest.mark.spec("AU-01")
def test_a_key_is_shown_once_and_kept_as_a_hash(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    key = new(file, "billing")
    assert key.startswith("tgk_")
    secret = key.rpartition("_")[2] if key.count("_") == 2 else key[17:]
    assert secret not in file.read_text()
    assert json.loads(file.read_text())["keys"][0]["sha256"] == hashlib.sha256(key.encode()).hexdigest()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    listed = tidegate("auth", "key", "list", "--file", file)
    assert "billing" in listed.stdout
    assert secret not in listed.stdout + tidegate("auth", "key", "list", "--file", file, "--json").stdout


@pytest.mark.slow
@pytest.mark.spec("AU-01")
def test_keys_are_listed_and_revoked_by_id(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    old, later = new(file, "billing"), new(file, "billing", "--expires", "90d")
    assert old != later
    rows = json.loads(tidegate("auth", "key", "list", "--file", file, "--json").stdout)
    assert [(row["id"], row["name"], row["state"]) for row in rows] == [
        (key[4:16], "billing", "valid") for key in (old, later)
    ]
    assert rows[0]["expires"] is None
    assert rows[1]["expires"] > rows[1]["created"]
    file.chmod(0o640)
    assert tidegate("auth", "key", "revoke", old[4:16], "--file", file).returncode == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o640, "whoever runs the gateway may be of another user"
    unknown = tidegate("auth", "key", "revoke", later[4:16], old[4:16], "--file", file)
    assert unknown.returncode == 1
    assert old[4:16] in unknown.stderr
    rows = json.loads(tidegate("auth", "key", "list", "--file", file, "--json").stdout)
    assert [row["id"] for row in rows] == [later[4:16]]


@pytest.mark.parametrize(
    "expires", ["soon", "2020-01-01T00:00:00Z", "2099-01-01T00:00:00", "0d", "999999w", "9999-12-31T23:59:59-23:00"]
)
def test_a_wrong_time_makes_no_key(tmp_path: Path, expires: str) -> None:
    file = tmp_path / "keys.json"
    done = tidegate("auth", "key", "new", "x", "--file", file, "--expires", expires)
    assert (done.returncode, done.stdout) == (2, "")
    assert not file.exists()


@pytest.mark.parametrize("name", ["", "a b", "a\nb", "x" * 200, "-"])
def test_a_wrong_name_makes_no_key(tmp_path: Path, name: str) -> None:
    done = tidegate("auth", "key", "new", "--file", tmp_path / "keys.json", "--", name)
    assert (done.returncode, done.stdout) == (1, "")


BAD = {
    "no JSON": b'{"keys": [',
    "another document": b'{"users": {}}',
    "no hash": b'{"keys": [{"id": "0123456789ab", "name": "a", "created": "2026-01-01T00:00:00Z"}]}',
    "empty": b"",
    "not text": b"\xff\xfe",
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
def test_a_file_that_holds_no_keys_is_refused_and_stays(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "keys.json"
    file.write_bytes(content)
    for command in (["new", "x"], ["list"], ["revoke", "0123456789ab"]):
        done = tidegate("auth", "key", *command, "--file", file)
        assert done.returncode == 1
        assert str(file) in done.stderr
    assert file.read_bytes() == content


def test_a_file_that_all_may_write_to_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    new(file, "x")
    file.chmod(0o666)
    done = tidegate("auth", "key", "list", "--file", file)
    assert done.returncode == 1
    assert "chmod o-w" in done.stderr


def test_a_link_to_the_file_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "keys.json"
    link.symlink_to(tmp_path / "real" / "keys.json")
    new(link, "x")
    assert link.is_symlink()
    assert len(json.loads((tmp_path / "real" / "keys.json").read_text())["keys"]) == 1


EDITS = """
import sys
from pathlib import Path
from gateway_auth.keys import add_key, remove_keys
file, name = Path(sys.argv[1]), sys.argv[2]
made = [add_key(file, name)[0].id for _ in range(20)]
remove_keys(file, made[:5])
"""


@pytest.mark.spec("AU-02")
@pytest.mark.usefixtures("processes")
def test_several_processes_edit_one_file(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    editors = [subprocess.Popen([sys.executable, "-c", EDITS, str(file), f"p{n}"]) for n in range(4)]
    assert [editor.wait(120) for editor in editors] == [0] * 4
    names = [key["name"] for key in json.loads(file.read_text())["keys"]]
    assert {name: names.count(name) for name in names} == {f"p{n}": 15 for n in range(4)}


@pytest.mark.slow
def test_a_password_becomes_a_hash(tmp_path: Path) -> None:
    done = tidegate("auth", "password", text="s3cret\n")
    found = parse_hash(done.stdout.strip())
    assert found is not None
    assert verify(b"s3cret", found)
    assert not verify(b"S3cret", found)
    users = tmp_path / "users.json"
    assert tidegate("auth", "password", "ann", "--file", users, text="one\n").returncode == 0
    assert tidegate("auth", "password", "ann", "--file", users, text="two\n").returncode == 0
    assert stat.S_IMODE(users.stat().st_mode) == 0o600
    ((name, text),) = json.loads(users.read_text())["users"].items()
    found = parse_hash(text)
    assert name == "ann"
    assert found is not None
    assert verify(b"two", found)


@pytest.mark.parametrize(("words", "text"), [(["ann"], "x\n"), ([], "\n"), ([], "x" * 2000)])
def test_a_password_that_can_not_be_taken(words: list[str], text: str) -> None:
    done = tidegate("auth", "password", *words, text=text)
    assert done.returncode in (1, 2)
    assert done.stdout == ""


@pytest.mark.usefixtures("processes")
def test_a_password_that_is_no_text_is_a_mistake_of_the_user(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gateway_core.cli", "auth", "password", "ann", "--file", str(tmp_path / "u.json")]
    done = subprocess.run(command, input=b"a\xff\n", capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"not UTF-8" in done.stderr
    assert b"internal error" not in done.stderr


def test_a_time_beyond_the_calendar_is_a_fault_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    entry = {"id": "0" * 12, "name": "a", "sha256": "0" * 64, "created": "0001-01-01T00:00:00+23:00"}
    file.write_text(json.dumps({"keys": [entry]}))
    done = tidegate("auth", "key", "list", "--file", file)
    assert done.returncode == 1
    assert "outside the years" in done.stderr


@pytest.mark.slow
@pytest.mark.spec("AL-01")
def test_a_new_password_is_in_the_audit_log(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    env = {"TIDEGATE_DATA_DIR": str(data)}
    assert tidegate("auth", "password", "ann", "-f", tmp_path / "u.json", text="s3cret\n", env=env).returncode == 0
    text = (data / "audit" / "audit.jsonl").read_text()
    line = json.loads(text)
    assert (line["what"], line["where"], line["result"], line["name"]) == ("password.set", "command", "done", "ann")
    assert "s3cret" not in text
    assert "scrypt" not in text
