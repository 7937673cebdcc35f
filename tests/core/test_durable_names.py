"""Names that outlive a config: what a data directory remembers, `tidegate check` and `tidegate orphans`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from gateway_core.contract.configs import load_all
from gateway_core.contract.errors import ConfigError
from gateway_core.runtime.durable_names import ConfigNames
from tests.command_line import tidegate
from tests.installed import REGISTRY

INGRESS = {
    "kafka": "{topic: t}",
    "mqtt": "{topic: a/#}",
    "nats": "{subject: s.>, stream: S}",
    "redis": "{stream: r}",
    "rabbitmq": "{queue: q}",
}
REST = """
  second: {channel: {jetstream: {}}}
  third: {channel: kafka}
triggers:
  one: {subscriber: "http://127.0.0.1:9/"}
  two: {subscriber: "http://127.0.0.1:9/", broker: second}
  three: {subscriber: "http://127.0.0.1:9/", broker: third}
"""


def config_of(broker: str = "default", **ingress: str) -> str:
    lines = "".join(f"      - {word}: {options}\n" for word, options in ingress.items())
    return f"brokers:\n  {broker}:\n    ingress:\n{lines}{REST}"


def ran(folder: Path, text: str) -> ConfigNames:
    """What is remembered once a gateway has run this config."""
    file = folder / "tidegate.yaml"
    file.write_text(text)
    names = ConfigNames(load_all([file], REGISTRY).config, REGISTRY, folder / "data")
    names.note()
    return names


def command(folder: Path, *words: str) -> dict[str, Any]:
    done = tidegate(words[0], folder / "tidegate.yaml", "--data-dir", folder / "data", "--json", *words[1:])
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def left_behind(folder: Path) -> list[dict[str, Any]]:
    """What `tidegate check` says about that."""
    return [w for w in command(folder, "check")["warnings"] if "behind" in w["message"]]


@pytest.mark.slow
@pytest.mark.spec("SAFE-72", "SAFE-73")
def test_what_an_edit_would_leave_behind_is_a_warning_and_then_an_orphan(tmp_path: Path) -> None:
    ran(tmp_path, config_of(**INGRESS))
    assert left_behind(tmp_path) == []
    edited = config_of("renamed", **INGRESS).replace("one:", "uno:").replace("third:", "dritter:")
    (tmp_path / "tidegate.yaml").write_text(
        edited.replace("third}", "dritter}").replace("broker: third", "broker: dritter")
    )
    warnings = left_behind(tmp_path)
    told = {w["message"].removeprefix("the config leaves the ").partition(" (")[0]: w["remedy"] for w in warnings}
    assert set(told) == {
        "consumer group tidegate.default",
        "NATS consumer S/tidegate_default",
        "Redis group r/tidegate.default",
        "log of events log/default",
        "cursor default/one",
        "Kafka topic tidegate.third",
        "consumer group tidegate.third.three",
    }  # the MQTT session and the queue are kept
    assert told["consumer group tidegate.default"].startswith("to keep it, write `group: tidegate.default`")
    assert told["NATS consumer S/tidegate_default"].startswith("to keep it, write `consumer: tidegate_default`")
    listed = command(tmp_path, "orphans")["orphans"]
    assert {entry["state"] for entry in listed} == {"in use by the config that ran last"}
    refused = tidegate(
        *("orphans", tmp_path / "tidegate.yaml", "--data-dir", tmp_path / "data", "--remove-all", "--yes"),
    )
    assert (refused.returncode, refused.stdout.count("run or reload this config first")) == (1, len(told))
    ran(tmp_path, (tmp_path / "tidegate.yaml").read_text())
    assert left_behind(tmp_path) == []  # it is done
    listed = command(tmp_path, "orphans")["orphans"]
    assert {f"{entry['what']} {entry['name']}" for entry in listed} == set(told)
    assert {entry["state"] for entry in listed} == {"left behind"}


@pytest.mark.spec("SAFE-72")
@pytest.mark.parametrize("word", INGRESS)
def test_where_an_ingress_stands_has_no_part_in_its_name(tmp_path: Path, word: str) -> None:
    """A name with a place in it would change here."""
    before = {name.key for name in ran(tmp_path, config_of(**{word: INGRESS[word]})).names}
    others = {w: o for w, o in INGRESS.items() if w != word}
    after = {name.key for name in ran(tmp_path, config_of(**others, **{word: INGRESS[word]})).names}
    assert before <= after
    assert left_behind(tmp_path) == []


def test_servers_are_shown_as_addresses_also_those_that_were_noted_with_two_schemes(tmp_path: Path) -> None:
    text = config_of(**INGRESS)
    servers = {name.transport: name.where for name in ran(tmp_path, text).names}
    assert {word: servers[word].rpartition(":")[0] for word in ("kafka", "mqtt", "redis", "rabbitmq")} == {
        "kafka": "kafka://127.0.0.1",
        "mqtt": "mqtt://127.0.0.1",
        "redis": "redis://127.0.0.1",
        "rabbitmq": "amqp://127.0.0.1",
    }
    assert all(where.count("://") < 2 for where in servers.values())
    noted = tmp_path / "data" / "names.json"
    noted.write_text(re.sub('"(redis|amqp)://', r'"\1://\1://', noted.read_text()))
    assert left_behind(tmp_path) == []


@pytest.mark.slow
@pytest.mark.spec("SAFE-73")
def test_the_log_of_a_broker_and_the_cursor_of_a_trigger_are_removed_once_that_is_confirmed(tmp_path: Path) -> None:
    plain = "brokers: {BROKER: {}}\ntriggers: {TRIGGER: {broker: BROKER, subscriber: 'http://127.0.0.1:9/'}}\n"
    ran(tmp_path, plain.replace("BROKER", "old").replace("TRIGGER", "t"))
    (tmp_path / "data" / "log" / "old").mkdir(parents=True)
    ran(tmp_path, plain.replace("BROKER", "new").replace("TRIGGER", "t"))
    words = ("orphans", tmp_path / "tidegate.yaml", "--data-dir", tmp_path / "data")
    done = tidegate(*words)
    assert (done.returncode, "log/old" in done.stdout, "old/t" in done.stdout) == (0, True, True)
    unasked = tidegate(*words, "--remove", "log/old")
    assert (unasked.returncode, "--yes" in unasked.stderr) == (1, True)
    assert (tmp_path / "data" / "log" / "old").is_dir()
    unknown = tidegate(*words, "--remove", "log/new", "--yes")
    assert (unknown.returncode, "no orphan has this name: log/new" in unknown.stderr) == (1, True)
    removed = tidegate(*words, "--remove", "log/old", "--remove", "old/t", "--yes")
    assert (removed.returncode, removed.stdout.count("removed: ")) == (0, 2)
    assert not (tmp_path / "data" / "log" / "old").exists()
    assert tidegate(*words).stdout == "no orphans\n"


@pytest.mark.spec("SAFE-71")
@pytest.mark.parametrize(
    ("ingress", "said"),
    [
        ("[{nats: {subject: a.>, stream: S}}, {nats: {subject: b.>, stream: S}}]", "uses the NATS consumer"),
        ("[{redis: {stream: s}}, {redis: {stream: [s, t]}}]", "as the same consumer of the same group"),
        ("[{mqtt: {topic: a, client_id: x}}, {mqtt: {topic: b, client_id: x}}]", "uses the MQTT session x"),
    ],
)
def test_two_ingresses_that_would_disturb_each_other_are_a_fault(tmp_path: Path, ingress: str, said: str) -> None:
    file = tmp_path / "tidegate.yaml"
    file.write_text(f"brokers: {{default: {{ingress: {ingress}}}}}\n")
    with pytest.raises(ConfigError, match=said) as caught:
        load_all([file], REGISTRY)
    assert [fault.path for fault in caught.value.faults] == ["brokers.default.ingress[1]"]


@pytest.mark.spec("SAFE-71")
def test_sharing_that_nobody_asked_for_is_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "tidegate.yaml"
    file.write_text(
        "brokers: {same: {ingress: [{nats: {subject: a.>}}, {nats: {subject: b.>}}, {kafka: {topic: t}}]}}\n"
        "bridges: {same: {source: {kafka: {topic: t}}, sink: 'http://127.0.0.1:9/', dead_letter: deadletter}}\n"
    )
    told = [warning.message for warning in load_all([file], REGISTRY).warnings]
    assert any("does not start if both subjects are in one stream" in text for text in told)
    assert any("shares the consumer group tidegate.same" in text for text in told)
