"""Dead letters of a broker that was renamed, or of a `path` that no config names any more, are found and taken over."""

from __future__ import annotations

import json
import os
import shlex
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from gateway_deadletter import line as line_format
from gateway_deadletter.encryption import Keys
from gateway_testing import Subscriber
from gateway_testing.process import GatewayProcess

from gateway_core.contract.event import Event
from tests import web
from tests.command_line import tidegate
from tests.core.test_durable_names import ran
from tests.explain.test_why import send

pytestmark = pytest.mark.spec("SAFE-241")

CONFIG = """
brokers:
  BROKER: {dead_letter: {deadletter: {OPTIONS}}}
triggers:
  late: {broker: BROKER, subscriber: "http://127.0.0.1:1/"}
"""


def config(broker: str, options: str = "") -> str:
    return CONFIG.replace("BROKER", broker).replace("OPTIONS", options)


def bury(file: Path, *ids: str, keys: Keys | None = None, **more: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    facts = {"specversion": "1.0", "source": "/s", "type": "t", "tidegatetrigger": "late", "tidegatebroker": "old"}
    facts |= {"tidegatestage": "delivery", "tidegatelast": "2026-01-01T00:00:00Z", **more}
    lines = [
        line_format.write(Event({**facts, "id": id_}), n + 1, keys, f"{file.stem}-{id_}") for n, id_ in enumerate(ids)
    ]
    file.write_bytes(b"".join(line + b"\n" for line in lines))


def command(folder: Path, *words: object) -> Any:
    return tidegate(*words, "--data-dir", folder / "data")


def warned(folder: Path) -> list[str]:
    """What `tidegate check` says of dead letters that are left behind."""
    found = json.loads(command(folder, "check", folder / "tidegate.yaml", "--json").stdout)
    return [w["remedy"] for w in found["warnings"] if w["message"].startswith("the config leaves the dead letters")]


def orphans(folder: Path, *words: str) -> Any:
    return command(folder, "orphans", folder / "tidegate.yaml", *words)


def named(folder: Path) -> dict[str, str]:
    found = json.loads(orphans(folder, "--json").stdout)["orphans"]
    return {orphan["name"]: orphan["state"] for orphan in found if orphan["what"] == "dead letters"}


def listed(folder: Path) -> tuple[int, str]:
    done = command(folder, "dlq", "list", "-c", folder / "tidegate.yaml")
    return done.returncode, done.stdout


def given_command(folder: Path, text: str) -> str:
    """Runs the command that a text tells."""
    words = shlex.split(text.split("`")[1])
    assert words[0] == "tidegate"
    return str(command(folder, *words[1:], "-c", folder / "tidegate.yaml").stdout)


RENAMED = config("old"), "dead-letter/old.jsonl", config("new"), " --broker new"
MOVED = config("old", "path: FOLDER/a.jsonl"), "FOLDER/a.jsonl", config("old", "path: FOLDER/b.jsonl"), ""
TO_DEFAULT = config("old", "path: FOLDER/a.jsonl"), "FOLDER/a.jsonl", config("old"), ""
FROM_DEFAULT = config("old"), "dead-letter/old.jsonl", config("old", "path: FOLDER/a.jsonl"), ""
BOTH = config("old", "path: FOLDER/a.jsonl"), "FOLDER/a.jsonl", config("new"), " --broker new"


@pytest.mark.slow
@pytest.mark.parametrize(("before", "name", "after", "to"), [RENAMED, MOVED, TO_DEFAULT, FROM_DEFAULT, BOTH])
def test_an_edit_that_leaves_dead_letters_behind_is_told_before_and_after(
    tmp_path: Path, before: str, name: str, after: str, to: str
) -> None:
    before, name, after = (text.replace("FOLDER", str(tmp_path)) for text in (before, name, after))
    file = tmp_path / "data" / name  # joined to an absolute one it is that
    ran(tmp_path, before)
    (tmp_path / "tidegate.yaml").write_text(after)
    assert (warned(tmp_path), named(tmp_path), listed(tmp_path)) == ([], {}, (0, "no dead letters\n"))  # there are none
    bury(file, "1", "2")
    bury(file.with_name(f"{file.stem}~1.jsonl"), "3")  # of another worker
    (remedy,) = warned(tmp_path)
    told = f"`tidegate dlq import --move{to} {file} '{file.with_name(f'{file.stem}~1.jsonl')}'` takes them over"
    assert remedy.startswith(f"once the config runs, {told}; ")
    assert named(tmp_path) == {name: "in use by the config that ran last"}
    text = f"3 dead letters in {file}, which belongs to nothing in this config: {told}\n"
    assert listed(tmp_path) == (1, f"no dead letters that can be read here\n{text}")
    ran(tmp_path, after)
    assert (warned(tmp_path), named(tmp_path), listed(tmp_path)[0]) == ([], {name: "left behind"}, 1)
    assert f"{name}: {told}" in orphans(tmp_path).stdout
    assert given_command(tmp_path, listed(tmp_path)[1]) == "3 imported\n"
    code, text = listed(tmp_path)
    assert (code, text.count("2026-01-01"), "belongs to nothing" in text) == (0, 3, False)
    assert (warned(tmp_path), named(tmp_path)) == ([], {})
    ran(tmp_path, before)  # back again: what was imported is known, and not lost
    code, text = listed(tmp_path)
    assert (code, text.count("3 dead letters in"), text.count("2026-01-01")) == (1, 1, 0)
    assert given_command(tmp_path, text) == "3 imported\n"
    code, text = listed(tmp_path)
    assert (code, text.count("2026-01-01"), "belongs to nothing" in text) == (0, 3, False)


@pytest.mark.slow
def test_only_who_names_dead_letters_removes_them(tmp_path: Path) -> None:
    file = tmp_path / "data" / "dead-letter" / "old.jsonl"
    ran(tmp_path, config("old"))
    bury(file, "1")
    refused = orphans_of(tmp_path, config("new"), "--remove", "dead-letter/old.jsonl", "--yes", runs=False)
    assert (refused.returncode, "run or reload this config first" in refused.stdout) == (1, True)
    kept = orphans_of(tmp_path, config("new"), "--remove-all", "--yes")
    assert (kept.returncode, "NOT removed: the dead letters dead-letter/old.jsonl" in kept.stdout) == (1, True)
    assert "`tidegate dlq import --move --broker new " in kept.stdout
    unasked = orphans_of(tmp_path, config("new"), "--remove", "dead-letter/old.jsonl")
    assert (unasked.returncode, "--yes" in unasked.stderr, file.exists()) == (1, True, True)
    file.write_bytes(file.read_bytes() + b"something else\n")
    foreign = orphans_of(tmp_path, config("new"), "--remove", "dead-letter/old.jsonl", "--yes")
    assert (foreign.returncode, "line 2 is no dead letter" in foreign.stdout, file.exists()) == (1, True, True)
    bury(file, "1")
    removed = orphans_of(tmp_path, config("new"), "--remove", "dead-letter/old.jsonl", "--yes")
    assert (removed.returncode, removed.stdout.count("removed: "), file.exists()) == (0, 1, False)
    assert listed(tmp_path) == (0, "no dead letters\n")


def orphans_of(folder: Path, config: str, *words: str, runs: bool = True) -> Any:
    if runs:
        ran(folder, config)
    (folder / "tidegate.yaml").write_text(config)
    return orphans(folder, *words)


def test_what_an_earlier_version_has_left_is_found_without_a_note(tmp_path: Path) -> None:
    bury(tmp_path / "data" / "dead-letter" / "gone.jsonl", "1", tidegatetrigger="gone")
    (tmp_path / "tidegate.yaml").write_text("brokers: {one: {}, two: {}}\n")
    code, text = listed(tmp_path)
    assert (code, "dlq import --move --broker BROKER " in text) == (1, True)  # nobody knows whose they are to be
    assert (len(warned(tmp_path)), list(named(tmp_path))) == (1, ["dead-letter/gone.jsonl"])


@pytest.mark.slow
def test_a_move_takes_out_what_is_safe_elsewhere_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "dead-letter"
    ran(tmp_path, config("new"))
    words = ("dlq", "import", "--move", "-c", tmp_path / "tidegate.yaml")
    bury(folder / "old.jsonl", "1", "2")
    bury(folder / "new.jsonl", "3")
    first = (folder / "old.jsonl").read_bytes().splitlines(keepends=True)[0]
    (folder / "new.jsonl").write_bytes((folder / "new.jsonl").read_bytes() + first)  # as a kill during a move leaves it
    (folder / "old.jsonl").write_bytes((folder / "old.jsonl").read_bytes() + b"something else\n")
    done = command(tmp_path, *words, folder / "old.jsonl")
    assert done.stdout == "1 imported, 1 were imported before, 1 lines are no dead letters\n"
    assert (folder / "old.jsonl").read_bytes() == b"something else\n"
    assert listed(tmp_path)[1].count("2026-01-01") == 3
    for own in (folder / "new.jsonl", folder / ".." / "dead-letter" / "new.jsonl"):
        refused = command(tmp_path, *words, own)
        assert (refused.returncode, "is a file of this config" in refused.stderr) == (1, True)
    assert listed(tmp_path)[1].count("2026-01-01") == 3


def test_encrypted_ones_are_taken_over_with_the_keys_of_the_config(tmp_path: Path) -> None:
    key = os.urandom(32)
    options = f"encrypt: {{keys: ['{b64encode(key).decode()}']}}"
    ran(tmp_path, config("old", options))
    bury(tmp_path / "data" / "dead-letter" / "old.jsonl", "1", keys=Keys([key]))
    ran(tmp_path, config("new", options))
    assert given_command(tmp_path, listed(tmp_path)[1]) == "1 imported\n"
    assert b'"encrypted"' in (tmp_path / "data" / "dead-letter" / "new.jsonl").read_bytes()
    assert listed(tmp_path)[0] == 0


def test_a_running_gateway_tells_them_and_replays_them(processes: None, tmp_path: Path) -> None:
    running = """
brokers: {{old: {{ingress: [http: {{listen: "127.0.0.1:0"}}], delivery: {{retry: 0}}}}}}
triggers: {{late: {{broker: old, subscriber: "{url}"}}}}
"""
    with Subscriber(default=400) as subscriber:
        with GatewayProcess(running.format(url=subscriber.url), tmp_path) as gateway:
            send(gateway.ingress("old"), "1")
            gateway.wait_until(lambda: b"\n" in read(gateway.data_dir), what="a dead letter")
            gateway.stop()
        gateway.config.write_text(gateway.config.read_text().replace("old", "new"))
        gateway.start()
        try:
            url, headers = f"{gateway.admin_url}/api/v1/dead-letters", gateway.admin_headers
            found = web.get(url, headers=headers, timeout=30).json()
            assert (found["items"], [left["count"] for left in found["left_behind"]]) == ([], [1])
            assert "1 dead letter in" in command(tmp_path, "dlq", "list").stdout
            assert given_command(tmp_path, found["left_behind"][0]["command"]) == "1 imported\n"
            subscriber.answer = 202
            assert command(tmp_path, "dlq", "replay", "--all").stdout == "1 replayed, 0 left\n"
            assert command(tmp_path, "dlq", "list").stdout == "no dead letters\n"
        finally:
            gateway.stop()


def read(data_dir: Path) -> bytes:
    file = data_dir / "dead-letter" / "old.jsonl"
    return file.read_bytes() if file.exists() else b""
