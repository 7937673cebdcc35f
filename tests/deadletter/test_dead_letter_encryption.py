"""Dead letters that are encrypted: nothing of an event is in the file, and nothing is lost with a wrong key."""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import pytest
from gateway_deadletter import line as line_format
from gateway_deadletter.encryption import Keys, key_id
from gateway_testing import GatewayProcess
from hypothesis import given
from hypothesis import strategies as st

from gateway_core.config.registry import Registry
from gateway_core.contract.configs import load
from gateway_core.contract.errors import ConfigError
from gateway_core.contract.event import Event
from tests import web
from tests.budget import examples
from tests.command_line import tidegate
from tests.deadletter.test_dead_letter_file import LETTERS, build, ids, numbered, write
from tests.ledger import body_of, headers

pytestmark = [pytest.mark.anyio, pytest.mark.spec("SE-04")]

OLD, NEW = os.urandom(32), os.urandom(32)


def encrypted(*keys: bytes, **more: Any) -> dict[str, Any]:
    texts = [key.hex() if number % 2 else b64encode(key).decode() for number, key in enumerate(keys)]
    return {"encrypt": {"keys": texts, **more}}


def file_of(tmp_path: Path) -> Path:
    return tmp_path / "dead-letter" / "default.jsonl"


async def test_letters_come_back_and_the_file_has_nothing_of_them(tmp_path: Path) -> None:
    sink = build(tmp_path, encrypted(NEW))
    await write(sink, LETTERS)
    again = list(sink.entries())
    assert [event for _, event in again] == LETTERS
    lines = [json.loads(line) for line in file_of(tmp_path).read_bytes().splitlines()]
    assert [set(line) for line in lines] == [{"id", "key", "encrypted"}] * len(LETTERS)
    raw = file_of(tmp_path).read_bytes() + b"".join(b64decode(line["encrypted"]) for line in lines)
    assert not any(word in raw for word in (b"specversion", b"datacontenttype", b"cloudEventsVersion"))
    assert sink.remove([again[0][0]]) == 1
    assert [event for _, event in sink.entries()] == LETTERS[1:]


async def test_keys_rotate(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    await write(build(tmp_path, encrypted(OLD)), numbered(range(2)))
    await write(build(tmp_path, encrypted(NEW, OLD)), numbered(range(2, 4)))
    assert ids(build(tmp_path, encrypted(NEW, OLD))) == ["0", "1", "2", "3"]
    assert ids(build(tmp_path, encrypted(OLD, NEW))) == ["0", "1", "2", "3"]
    assert caplog.text == ""
    late = build(tmp_path, encrypted(NEW))
    assert ids(late) == ["2", "3"]
    assert f"2 dead letters can't be read, the first in line 1: encrypted with the key {key_id(OLD)}" in caplog.text
    assert late.remove([id_ for id_, _ in late.entries()]) == 2
    assert ids(build(tmp_path, encrypted(OLD))) == ["0", "1"]  # kept, for whoever has the key
    assert ids(build(tmp_path)) == []


async def test_no_nonce_is_used_twice(tmp_path: Path) -> None:
    for _ in range(5):  # each start of a writer, also after a crash
        await write(build(tmp_path, encrypted(NEW)), numbered(range(20)))
    found = [b64decode(json.loads(line)["encrypted"])[:24] for line in file_of(tmp_path).read_bytes().splitlines()]
    assert len(set(found)) == 100
    assert len({nonce[:16] for nonce in found}) == 5


async def test_plain_lines_are_read_only_if_asked_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    await write(build(tmp_path), numbered(range(2)))
    await write(build(tmp_path, encrypted(NEW)), numbered(range(2, 3)))
    assert ids(build(tmp_path, encrypted(NEW))) == ["2"]
    assert "2 dead letters can't be read, the first in line 1: not encrypted; `also_plain: true`" in caplog.text
    assert ids(build(tmp_path, encrypted(NEW, also_plain=True))) == ["0", "1", "2"]


async def test_a_torn_line_is_put_aside_without_a_key(tmp_path: Path) -> None:
    await write(build(tmp_path, encrypted(NEW)), numbered(range(2)))
    file = file_of(tmp_path)
    torn = file.read_bytes().splitlines()[0][:-40]
    with file.open("ab") as f:
        f.write(torn)
    await write(build(tmp_path, encrypted(NEW)), numbered(range(2, 3)))
    assert ids(build(tmp_path, encrypted(NEW))) == ["0", "1", "2"]
    assert file.with_name("default.jsonl.torn").read_bytes() == torn + b"\n"


@pytest.mark.slow
@given(st.data())
@examples(200)
def test_a_changed_line_is_never_read(data: st.DataObject) -> None:
    keys = Keys([NEW])
    event = Event({"specversion": "1.0", "id": "a"}, data.draw(st.binary(max_size=40)))
    line = line_format.write(event, 1, keys)
    assert line_format.read(line, keys)[1] == event
    other = json.loads(line_format.write(event, 2, keys))
    changed = json.loads(line)
    what = data.draw(st.sampled_from(["id", "encrypted", "bits", "cut"]))
    if what in ("id", "encrypted"):
        changed[what] = other[what]
    else:
        sealed = bytearray(b64decode(changed["encrypted"]))
        at = data.draw(st.integers(0, len(sealed) - 1))
        if what == "cut":
            del sealed[at:]
        else:
            sealed[at] ^= 1 << data.draw(st.integers(0, 7))
        changed["encrypted"] = b64encode(sealed).decode()
    with pytest.raises(line_format.Unreadable, match="it was changed, or copied from another line"):
        line_format.read(json.dumps(changed).encode(), keys)


CONFIG = """
secrets: {key: {env: LETTER_KEY}}
brokers:
  default:
    ingress: [http: {listen: "127.0.0.1:0"}]
    dead_letter: {deadletter: {encrypt: {keys: ["${secret:key}"]}}}
"""


@pytest.mark.parametrize("text", ["0123456789abcdef", "s3cret-that-is-no-key", "", "ff" * 33])
def test_a_wrong_key_is_a_fault_that_does_not_show_it(tmp_path: Path, text: str) -> None:
    (tmp_path / "c.yaml").write_text(CONFIG)
    with pytest.raises(ConfigError) as raised:
        load([tmp_path / "c.yaml"], Registry.installed(), {"LETTER_KEY": text} if text else {})
    said = str(raised.value)
    assert "32 bytes, in base64 or hexadecimal" in said if text else "`LETTER_KEY` isn't set" in said
    assert not text or text not in said


@pytest.mark.slow
def test_no_keys_are_a_fault_and_keys_in_clear_a_warning(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(CONFIG.replace('["${secret:key}"]', "[]"))
    assert "brokers.default.dead_letter.deadletter.encrypt.keys" in tidegate("check", config).stdout
    config.write_text(CONFIG.replace("${secret:key}", OLD.hex()))
    shown = tidegate("check", config)
    assert (shown.returncode, "the keys stand in the config in clear" in shown.stdout) == (0, True)
    assert OLD.hex() not in shown.stdout


@pytest.mark.slow
async def test_dlq_finds_the_key_in_the_config_or_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await write(build(tmp_path, encrypted(OLD)), numbered(range(1)))
    await write(build(tmp_path, encrypted(NEW)), numbered(range(1, 2)))
    config, keys = tmp_path / "c.yaml", tmp_path / "old.keys"
    config.write_text(CONFIG)
    monkeypatch.setenv("LETTER_KEY", NEW.hex())
    keys.write_text(f"{OLD.hex()}\n\n")
    common = ("-c", config, "--data-dir", tmp_path)

    def listed(*more: object) -> list[str]:
        return [row["event_id"] for row in json.loads(tidegate("dlq", "list", "--json", *common, *more).stdout)]

    assert listed() == ["1"]
    assert f"encrypted with the key {key_id(OLD)}, which is not among the keys" in caplog.text
    assert listed("--key-file", keys) == ["0", "1"]
    keys.write_text("no key")
    ran = tidegate("dlq", "list", *common, "--key-file", keys)
    assert (ran.returncode, "a key is 32 bytes" in ran.stderr) == (1, True)
    assert "no key\n" not in ran.stderr
    assert "leave out --admin" in tidegate("dlq", "list", "--admin", "127.0.0.1:1", "--key-file", keys).stderr


RUNNING = """
secrets: {first: {file: first}, second: {file: second}}
brokers:
  default:
    ingress: [http: {listen: "127.0.0.1:0"}]
    delivery: {retry: 0}
    dead_letter: {deadletter: {encrypt: {keys: ["${secret:first}"]}}}
triggers:
  t: {subscriber: "http://127.0.0.1:1/"}
"""


@pytest.mark.usefixtures("processes")
def test_keys_rotate_in_a_running_gateway(tmp_path: Path) -> None:
    (tmp_path / "first").write_text(OLD.hex())
    (tmp_path / "second").write_text(NEW.hex())
    with GatewayProcess(RUNNING, tmp_path) as gateway:

        def fail(number: int) -> None:
            answer = web.post(gateway.ingress(), content=body_of(number), headers=headers(number), verify=False)
            assert answer.status_code == 202
            gateway.wait_until(lambda: gateway.trigger("t")["dead_lettered"] == number, 60, "the dead letter")

        fail(1)
        gateway.config.write_text(RUNNING.replace('["${secret:first}"]', '["${secret:second}", "${secret:first}"]'))
        gateway.wait_until(lambda: gateway.status()["config"]["generation"] == 2, 60, "the reload")
        fail(2)
        (tmp_path / "second").write_text("no key")  # changes nothing
        gateway.wait_until(lambda: gateway.status()["config"]["error"], 60, "the fault")
        fail(3)
        lines = [json.loads(line) for line in file_of(gateway.data_dir).read_bytes().splitlines()]
        assert [line["key"] for line in lines] == [key_id(OLD), key_id(NEW), key_id(NEW)]
        listed = tidegate("dlq", "list", "--json", "--data-dir", gateway.data_dir)
        assert [row["event_id"] for row in json.loads(listed.stdout)] == ["1", "2", "3"]
        (tmp_path / "second").write_text(NEW.hex())
        gateway.config.write_text(RUNNING.replace("secret:first", "secret:second"))
        gateway.wait_until(lambda: gateway.status()["config"]["generation"] == 3, 60, "the reload")
        said = tidegate("dlq", "list", "--data-dir", gateway.data_dir).stdout
        assert f"1 dead letters can't be read, the first in line 1: encrypted with the key {key_id(OLD)}" in said
        first = json.loads(listed.stdout)[0]["id"]
        shown = tidegate("dlq", "show", first, "--data-dir", gateway.data_dir)
        assert (shown.returncode, key_id(OLD) in shown.stderr) == (1, True)
        assert gateway.stop() == 0
