"""`tidegate restore` of a backup that someone changed: nothing outside the data directory, nothing half restored, and
nothing that lets someone in."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from gateway_log.restore import BackupError, read_manifest, restore
from hypothesis import example, given
from hypothesis import strategies as st

from tests.budget import examples
from tests.command_line import tidegate

LETTER = b'{"id":"1"}\n'


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    (data / "dead-letter").mkdir(parents=True)
    (data / "dead-letter" / "default.jsonl").write_bytes(LETTER)
    (data / "applied").mkdir()
    (data / "applied" / "more.yaml").write_text("triggers: {}\n")
    (data / "keys.json").write_text("{}")
    made = tidegate("backup", tmp_path / "b", "--data-dir", data)
    assert made.returncode == 0, made.stderr
    return tmp_path / "b"


def add(backup: Path, name: str, content: bytes = b"mine") -> None:
    """Puts a file into the backup as someone does who knows how: with its size and digest."""
    (backup / name).parent.mkdir(parents=True, exist_ok=True)
    (backup / name).write_bytes(content)
    enlist(backup, name, content)


def enlist(backup: Path, name: str, content: bytes = b"mine") -> None:
    manifest = json.loads((backup / "manifest.json").read_text())
    manifest["files"][name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (backup / "manifest.json").write_text(json.dumps(manifest))


def files_below(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*")}


def refused(backup: Path, *more: str) -> str:
    """What a restore says that must change nothing."""
    outside = files_below(backup.parent)
    ran = tidegate("restore", backup, "--data-dir", backup.parent / "new", *more)
    assert ran.returncode == 1
    assert files_below(backup.parent) == outside
    return ran.stderr


@pytest.mark.slow
@pytest.mark.spec("SAFE-98")
@pytest.mark.parametrize(
    "name", ["a/../../evil", "../evil", "/tmp/tidegate-evil", "log/../../../evil", "a//b", "./a", "", ".", "a/./b"]
)
def test_no_file_outside_the_data_directory(backup: Path, name: str) -> None:
    (backup / "a").mkdir()
    (backup.parent / "evil").write_bytes(b"mine")
    enlist(backup, name)
    for more in ([], ["--all"], ["--force", "--all"]):
        assert "manifest.json was changed: it names the file" in refused(backup, *more)
    assert tidegate("restore", backup, "--check").returncode == 1


@pytest.mark.spec("SAFE-98")
@examples(60)
@given(st.lists(st.sampled_from(["..", ".", "", "a", "log", "\x00", "x.lock"]), min_size=1, max_size=5).map("/".join))
@example("a/../../evil")
def test_any_name_stays_below_or_is_refused(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    folder = tmp_path_factory.mktemp("b")
    fact: dict[str, Any] = {"bytes": 0, "sha256": hashlib.sha256(b"").hexdigest()}
    whole = {"version": "1", "made": "", "data_dir": "/", "files": {name: fact}, "shards": {}}
    (folder / "manifest.json").write_text(json.dumps(whole))
    try:
        read_manifest(folder)
    except BackupError:
        return
    assert os.path.normpath(os.path.join("/data", name)) == f"/data/{name}"


@pytest.mark.slow
@pytest.mark.spec("SAFE-98")
@pytest.mark.parametrize(
    "name", [".restored/x", "gateway.json", "replaced-1/x", ".lock", "admin.sock", "manifest.json"]
)
def test_no_file_that_belongs_to_a_gateway_that_runs(backup: Path, name: str) -> None:
    enlist(backup, name)
    assert "was changed" in refused(backup, "--all")


@pytest.mark.spec("SAFE-98")
def test_a_file_can_be_no_folder_of_another(backup: Path) -> None:
    enlist(backup, "dead-letter/default.jsonl/x")
    assert "is in a folder that is a file" in refused(backup)


@pytest.mark.spec("SAFE-98")
def test_a_link_in_a_backup_leads_nowhere(backup: Path) -> None:
    secret = backup.parent / "secret"
    secret.write_bytes(b"mine")
    (backup / "applied" / "stolen").symlink_to(secret)
    enlist(backup, "applied/stolen")
    assert "is a link" in refused(backup)
    (backup / "applied" / "stolen").unlink()
    (backup / "kafka").symlink_to(backup.parent)
    enlist(backup, "kafka/secret")
    assert "is a link" in refused(backup)


@pytest.mark.spec("SAFE-98")
@pytest.mark.parametrize("name", ["admin.token", "audit/audit.jsonl", "keys/alice", "admin.ended"])
def test_nothing_that_lets_someone_in_unless_asked(backup: Path, name: str) -> None:
    add(backup, name, b"a-token-of-mine")
    new = backup.parent / "new"
    ran = tidegate("restore", backup, "--data-dir", new)
    assert ran.returncode == 0
    assert "left in the backup, as it may grant access: " in ran.stderr
    assert name.split("/")[0] in ran.stderr
    assert "keys.json" in ran.stderr
    assert not (new / name).exists()
    assert not (new / "keys.json").exists()
    assert (new / "dead-letter" / "default.jsonl").read_bytes() == LETTER
    shutil.rmtree(new)
    assert tidegate("restore", backup, "--data-dir", new, "--all").returncode == 0
    assert (new / name).read_bytes() == b"a-token-of-mine"


@pytest.mark.spec("SAFE-98")
def test_who_keeps_the_digest_takes_no_other_backup(backup: Path) -> None:
    data = backup.parent / "data"
    said = json.loads(tidegate("backup", backup.parent / "c", "--data-dir", data, "--json").stdout)
    known = said["sha256"]
    copy = backup.parent / "c"
    assert tidegate("restore", copy, "--data-dir", backup.parent / "new", "--sha256", known).returncode == 0
    add(copy, "applied/evil.yaml", b"triggers: {}")
    ran = tidegate("restore", copy, "--data-dir", backup.parent / "other", "--sha256", known)
    assert (ran.returncode, "another SHA-256" in ran.stderr) == (1, True)
    assert not (backup.parent / "other").exists()


@pytest.mark.spec("SAFE-98")
def test_a_file_that_changes_after_it_was_checked_leaves_all_as_it_was(backup: Path) -> None:
    data = backup.parent / "data"
    before = files_below(data)
    manifest = read_manifest(backup)
    (backup / "dead-letter" / "default.jsonl").write_bytes(b'{"id":"2"}\n')
    with pytest.raises(BackupError, match="has changed"):
        restore(backup, manifest, data, lambda *_: None)
    assert files_below(data) == before
    assert (data / "dead-letter" / "default.jsonl").read_bytes() == LETTER


@pytest.mark.spec("SAFE-98")
def test_a_replacement_that_fails_midway_is_taken_back(backup: Path) -> None:
    data = backup.parent / "data"
    before = {name: (data / name).is_dir() or (data / name).read_bytes() for name in files_below(data)}

    def lose(what: str, done: int, total: int) -> None:
        if what == "restore keys.json":  # the last one: by then the others are about to be put in place
            (data / ".restored" / "keys.json").unlink()

    with pytest.raises(FileNotFoundError):
        restore(backup, read_manifest(backup), data, lose)
    after = {n: (data / n).is_dir() or (data / n).read_bytes() for n in files_below(data) if "replaced-" not in n}
    assert after == before
