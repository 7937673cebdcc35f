"""`tidegate log verify` and `repair` find what is damaged among events that wait, keep the rest, and name it all."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from gateway_log.commands import app
from gateway_log.delay_file import DelayFile, Waiting
from gateway_log.quarantine import entries
from gateway_log.repair import repair
from gateway_log.rows import Row
from gateway_log.verify import faults
from typer.testing import CliRunner

from gateway_core.contract.errors import StartError

pytestmark = [pytest.mark.spec("DELAY-07")]
PAGE = 4096
Content = dict[tuple[str, int], tuple[object, ...]]


def rows_of(file: Path) -> Content:
    with closing(sqlite3.connect(file)) as connection:
        columns = "name, sequence, due_ns, CAST(attributes AS BLOB), CAST(data AS BLOB), ident"
        found = connection.execute(f"SELECT {columns} FROM events").fetchall()
    return {(name, sequence): tuple(rest) for name, sequence, *rest in found}


def run(*arguments: str) -> str:
    return CliRunner().invoke(app, arguments).stdout


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a log in which 60 events wait for two triggers."""
    folder = tmp_path_factory.mktemp("written") / "log/default"
    folder.mkdir(parents=True)
    file = DelayFile(folder / "delayed-000.db", 0)
    for n in range(60):
        attributes = json.dumps({"specversion": "1.0", "id": str(n), "source": "/s", "type": "t"}).encode()
        row = Row(n + 1, 10**18 + n, 0, b"k" if n % 3 else None, attributes, b"<%05d>" % n + bytes(120))
        file.add("one" if n % 2 else "two", [Waiting(row, 2 * 10**18 + n * 10**9)])
    file.close()
    return folder


@pytest.fixture
def spoiled(tmp_path: Path, written: Path) -> Callable[[Callable[[bytearray], None]], Path]:
    def spoil(change: Callable[[bytearray], None]) -> Path:
        folder = tmp_path / "log/default"
        shutil.rmtree(tmp_path / "log", ignore_errors=True)
        shutil.copytree(written, folder)
        content = bytearray((folder / "delayed-000.db").read_bytes())
        change(content)
        (folder / "delayed-000.db").write_bytes(content)
        (folder / "delayed-000.db").chmod(0o600)
        folder.chmod(0o700)
        return folder

    return spoil


def account(folder: Path, before: Content) -> tuple[Content, set[tuple[str, int]]]:
    """What a repair keeps and what it sets aside, after a look whether all of it is told."""
    told = list(faults(folder))
    done = list(repair(folder))
    aside = {(e["trigger"], e["first"]) for e in entries(folder)}
    assert bool(told) == bool(done), (told, done)
    for name, sequence in aside:
        assert any(f"event {sequence} that waits for {name!r}" in line for line in done)
    if done and "newer" in done[0]:
        return before, set()  # it may be one of a later version: it is not touched
    kept = rows_of(folder / "delayed-000.db")
    assert not list(faults(folder))
    assert not list(repair(folder))
    assert kept == {key: before[key] for key in kept}
    assert not kept.keys() & aside
    return kept, aside


@pytest.mark.slow
@pytest.mark.parametrize("step", [499, pytest.param(29, marks=pytest.mark.full)])
def test_a_flipped_bit_loses_nothing_silently(
    written: Path, spoiled: Callable[[Callable[[bytearray], None]], Path], step: int
) -> None:
    file = written / "delayed-000.db"
    before = rows_of(file)
    chosen = random.Random(step)
    lost = 0
    places = [*range(0, 100, 7), *range(100, file.stat().st_size, step)]
    for place in places:
        bit = 1 << chosen.randrange(8)

        def flip(content: bytearray, place: int = place, bit: int = bit) -> None:
            content[place] ^= bit

        kept, aside = account(spoiled(flip), before)
        assert before.keys() <= kept.keys() | aside, (place, bit)
        lost += len(aside)
    assert lost


@pytest.mark.slow
def test_every_page_in_turn_is_noise(written: Path, spoiled: Callable[[Callable[[bytearray], None]], Path]) -> None:
    file = written / "delayed-000.db"
    before = rows_of(file)
    kept_at_all = []
    for page in range(file.stat().st_size // PAGE):

        def spoil(content: bytearray, page: int = page) -> None:
            content[page * PAGE : (page + 1) * PAGE] = random.Random(page).randbytes(PAGE)

        kept, aside = account(spoiled(spoil), before)
        assert before.keys() == kept.keys() | aside, page
        kept_at_all.append(len(kept))
    assert kept_at_all[0] == 60  # the first page says only what is in every file


def test_commands_count_and_name_what_is_damaged(
    spoiled: Callable[[Callable[[bytearray], None]], Path],
) -> None:
    def spoil(content: bytearray) -> None:
        content[content.index(b"<00007>")] ^= 1

    folder = spoiled(spoil)
    where = ["--data-dir", str(folder.parent.parent)]
    (folder / "shard-000.db").unlink(missing_ok=True)
    answer = json.loads(run("verify", *where, "--json"))
    assert answer["delayed"] == {"delayed-000.db": 60}
    (fault,) = answer["faults"]
    assert fault.startswith("delayed-000.db: event 8 that waits for 'one': ")
    assert "delayed-000.db: 60 events wait" in run("verify", *where)
    assert "kept 59 events" in run("repair", *where)
    (aside,) = json.loads(run("quarantine", "list", *where, "--json"))
    assert (aside["trigger"], aside["position"]) == ("one", 8)
    exported = run("quarantine", "export", "--events", *where)
    assert json.loads(exported)["id"] == "7"
    assert json.loads(run("verify", *where, "--json"))["ok"]


def test_an_interrupted_repair_is_finished(spoiled: Callable[[Callable[[bytearray], None]], Path]) -> None:
    folder = spoiled(lambda content: None)
    file = folder / "delayed-000.db"
    before = rows_of(file)
    shutil.copyfile(file, folder / "delayed-000.db.repaired")
    file.write_bytes(b"")
    with pytest.raises(StartError, match="interrupted"):
        DelayFile(file, 0)
    assert any("interrupted" in fault for fault in faults(folder))
    assert any("finished a repair" in line for line in repair(folder))
    assert rows_of(file) == before
