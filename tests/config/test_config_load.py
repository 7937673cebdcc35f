"""What a right config becomes."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from config_plugins import registry

from gateway_core.contract.config_model import DeliveryConfig, GatewayConfig
from gateway_core.contract.configs import load, load_all
from gateway_core.contract.errors import ConfigError
from gateway_core.contract.faults import render
from tests.budget import examples

HERE = Path(__file__).parent
REGISTRY = registry()
TRIGGER = "triggers: {late: {subscriber: stdout, delivery: {retry: 1}}}\n"


def _load(folder: Path, text: str, **env: str) -> GatewayConfig:
    file = folder / "main.yaml"
    file.write_text(text, encoding="utf-8")
    return load([file], REGISTRY, env)


def _subscriber(config: GatewayConfig, name: str = "late") -> Any:
    return config.triggers[name].subscriber.options


def test_references_are_resolved_at_any_depth() -> None:
    config = load([HERE / "good" / "whole.yaml"], REGISTRY, {"PORT": "8080", "TOKEN": "s3cr3t-t0ken"})
    broker, late = config.brokers["default"], config.triggers["late"]
    assert broker.ingress[0].options.listen == "127.0.0.1:8080"  # type: ignore[union-attr]
    assert broker.ingress[0].options.codec.options.mode == "structured"  # type: ignore[union-attr]
    assert broker.channel.options is not None
    assert (late.subscriber.name, _subscriber(config).url) == ("http", "http://127.0.0.1:9000/")
    assert _subscriber(config).codec.options.mode == "binary"
    inner = late.filters[0].options.root[1].options.root  # type: ignore[union-attr]
    assert (inner.name, inner.options.root) == ("exact", {"source": "/b"})
    assert late.delivery.retry == 3
    assert config.bridges["direct"].sink.options.key.name == "none"  # type: ignore[union-attr]


def test_the_same_reference_twice_is_one_component_and_each_has_its_faults(tmp_path: Path) -> None:
    url = "http://127.0.0.1:9000/"
    found = _load(tmp_path, f"triggers: {{a: {{subscriber: '{url}'}}, b: {{subscriber: '{url}'}}}}\n")
    one, other = (found.triggers[name].subscriber for name in "ab")
    assert (one.name, one.options) == (other.name, other.options)
    assert one is not other
    with pytest.raises(ConfigError) as failed:
        _load(tmp_path, "triggers: {a: {subscriber: http}, b: {subscriber: http}}\n")
    assert {fault.path.split(".")[1] for fault in failed.value.faults} == {"a", "b"}


def test_one_load_does_not_change_the_defaults_of_another(tmp_path: Path) -> None:
    first = _load(tmp_path, "brokers: {a: {}, b: {}}\n").brokers
    assert first["a"].channel is not first["b"].channel
    assert GatewayConfig.model_validate({"brokers": {"a": {}}}).brokers["a"].channel.options is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${NUMBER}", "put it in quotes"),
        ('"${NUMBER}"', "17"),
        ("'${WORD}'", "abc"),
        ("a-${WORD}-${NUMBER}", "a-abc-17"),
        ("${MISSING:-x y}", "x y"),
        ("${EMPTY:-given}", "given"),
        ("a${EMPTY}b", "ab"),
        ("$${WORD}", "${WORD}"),
        ("$WORD $ $$", "$WORD $ $$"),
        ("x$${${WORD}", "x${abc"),
    ],
)
def test_places_are_filled(tmp_path: Path, text: str, expected: str) -> None:
    whole = f"triggers:\n  late:\n    subscriber: stdout\n    filter:\n      a: {text}\n"
    try:
        found = _load(tmp_path, whole, NUMBER="17", WORD="abc", EMPTY="").triggers["late"].filter["a"]
    except ConfigError as e:
        found = e.faults[0].remedy
    assert found == expected


def test_a_value_that_is_one_place_gets_its_type_from_the_environment(tmp_path: Path) -> None:
    text = "triggers:\n  late:\n    subscriber: stdout\n    allow_cycle: ${YES}\n    delivery:\n      retry: ${N}\n"
    trigger = _load(tmp_path, text, N="0x10", YES="true").triggers["late"]
    assert (trigger.delivery.retry, trigger.allow_cycle) == (16, True)


def test_secrets_are_filled_and_never_shown(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("hunter2-secret\n")
    text = """\
secrets: {user: {env: USER_NAME}, password: {file: password}}
triggers:
  late:
    subscriber:
      http:
        url: "http://${secret:user}@127.0.0.1/"
        headers: {authorization: "Bearer ${secret:password}"}
  early:
    subscriber: "http://${secret:user}:${secret:password}@127.0.0.1/"
"""
    config = _load(tmp_path, text, USER_NAME="walter-secret")
    assert _subscriber(config).headers == {"authorization": "Bearer hunter2-secret"}
    assert _subscriber(config, "early").url == "http://walter-secret:hunter2-secret@127.0.0.1/"
    shown = repr(config) + repr(_subscriber(config)) + str(_subscriber(config, "early"))
    assert "hunter2" not in shown
    assert "walter" not in shown
    assert "url='****'" in shown


@pytest.mark.spec("HM-17")
@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("pipe", "not a regular file"),
        ("folder", "not a regular file"),
        ("", "can't be read: No such"),
        ("blank", "is empty"),
    ],
)
def test_a_secret_s_place_is_a_file(tmp_path: Path, kind: str, says: str) -> None:
    """Nobody waits for the other end of a pipe."""
    path = tmp_path / "password"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "blank":
        path.write_text("\r\n")
    text = 'secrets: {password: {file: password}}\ntriggers: {t: {subscriber: "http://u:${secret:password}@h/"}}\n'
    with pytest.raises(ConfigError, match=says):
        _load(tmp_path, text)


def test_files_of_a_directory_and_includes_are_read_as_one(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "a.yaml").write_text("include: ['more/*.yaml', b.yml]\nbrokers: {default: {}}\n---\n" + TRIGGER)
    (tmp_path / "b.yml").write_text("triggers: {b: {subscriber: stdout}}\n")
    (tmp_path / "more" / "c.yaml").write_text("include: [../b.yml]\ntriggers: {c: {subscriber: stdout}}\n")
    (tmp_path / "more" / "note.txt").write_text("nothing")
    loaded = load_all([tmp_path], REGISTRY, {})
    assert sorted(loaded.config.triggers) == ["b", "c", "late"]
    assert sorted(Path(f).name for f in loaded.files) == ["a.yaml", "b.yml", "c.yaml"]


def test_a_pattern_that_matches_no_file_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("include: ['conf.d/*.yaml']\nbrokers: {default: {ingress: [http]}}\n")
    warnings = load_all([tmp_path / "a.yaml"], REGISTRY, {}).warnings
    assert [(w.message, w.line) for w in warnings] == [("no file matches `conf.d/*.yaml`", 1)]


def test_aliases_and_merge_keys(tmp_path: Path) -> None:
    text = """\
triggers:
  a: &a
    subscriber: stdout
    delivery: &d {retry: 2, timeout_s: 5}
  b: {<<: *a, delivery: {<<: *d, retry: 7}}
"""
    config = _load(tmp_path, text)
    assert config.triggers["a"].delivery.retry == 2
    assert (config.triggers["b"].delivery.retry, config.triggers["b"].delivery.timeout_s) == (7, 5)
    assert config.triggers["b"].subscriber.name == "stdout"


@pytest.mark.spec("BR-06", "BR-07")
def test_a_trigger_may_come_before_its_broker(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(TRIGGER)
    found = load_all([tmp_path], REGISTRY, {})
    config, warnings = found.config, found.warnings
    assert config.triggers["late"].broker == "default"
    assert any("there is no broker `default`" in w.message for w in warnings)


def test_a_triggers_delivery_wins_key_by_key() -> None:
    broker = DeliveryConfig(retry=3, timeout_s=5, backoff="linear")
    trigger = DeliveryConfig(retry=10, backoff_delay_s=1)
    effective = trigger.over(broker)
    assert (effective.retry, effective.timeout_s, effective.backoff, effective.backoff_delay_s) == (10, 5, "linear", 1)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.full)])
def test_thousands_of_triggers_are_loaded(count: int, tmp_path: Path) -> None:
    one = "  t{0}:\n    filter: {{type: a{0}}}\n    subscriber: http://127.0.0.1:9000/{0}\n"
    config = _load(tmp_path, "triggers:\n" + "".join(one.format(i) for i in range(count)))
    assert _subscriber(config, f"t{count - 1}").url == f"http://127.0.0.1:9000/{count - 1}"


_words = st.sampled_from(
    ["brokers", "triggers", "bridges", "secrets", "observers", "include", "default", "late", "ingress", "http", "url",
     "subscriber", "filters", "all", "not", "exact", "delivery", "retry", "stdout", "queue", "limit", "http://x/",
     "${A}", "${secret:late}", "${", "<<", "env", "file", "A"]
)  # fmt: skip
_leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | _words
_values = st.recursive(
    _leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_words | st.text(max_size=4), inner, max_size=4),
    max_leaves=25,
)
_sections = st.sampled_from(["brokers", "triggers", "bridges", "secrets", "observers", "include", "x"])
_quick = examples(150, suppress_health_check=[HealthCheck.function_scoped_fixture])
SECRET = "zq-7hidden7-qz"
WRITTEN = b"""\
brokers: {default: {ingress: [http: {}]}}
triggers:
  late: &late
    filters: [{exact: {type: "a\\tb"}}, {not: {exact: {subject: 'it''s'}}}]
    subscriber: http://x/${A}
    delivery: {retry: 3, backoff_delay_s: 1.5}
  later: {<<: *late, subscriber: !!str stdout}
observers: []
"""
# a config with a piece of it cut out, and something else in its place
_damaged = st.builds(
    lambda at, length, piece: WRITTEN[:at] + piece + WRITTEN[at + length :],
    st.integers(0, len(WRITTEN)),
    st.sampled_from([0, 1, 5, len(WRITTEN)]),
    st.binary(max_size=3)
    | st.sampled_from([b"'", b'"', b"{", b"]", b": ", b"\n", b"\n\t", b"*", b"&a ", b"!!int ", b"? "]),
)


def _check(file: Path, data: bytes) -> None:
    """Loads bytes as a config; nothing but `ConfigError` may come, and no report may hold the secret."""
    file.write_bytes(data)
    try:
        found = load_all([file], REGISTRY, {"A": SECRET})
        config, warnings = found.config, found.warnings
        shown = render([], warnings=warnings)
        assert isinstance(config, GatewayConfig)
    except ConfigError as e:
        shown = render(e.faults) + str(e)
    assert SECRET not in shown or b"${A}" in data


@pytest.mark.slow
@_quick
@given(
    data=st.binary(max_size=200) | st.text(max_size=200).map(lambda t: t.encode("utf-8", "surrogatepass")) | _damaged
)
@example(data=b'triggers: "no end\n')
@example(data=b"triggers: {a: *none}")
def test_no_bytes_break_the_loader(data: bytes, tmp_path: Path) -> None:
    _check(tmp_path / "any.yaml", data)


@pytest.mark.slow
@_quick
@given(data=st.text("ab:-[]{}\"'&*!|>%@#?,\n \t~<$.0", max_size=60))
@example(data="*none")
@example(data="'")
def test_no_yaml_breaks_the_loader(data: str, tmp_path: Path) -> None:
    _check(tmp_path / "any.yaml", b"triggers:\n  a: " + data.encode())


@pytest.mark.slow
@_quick
@given(data=st.dictionaries(_sections, _values, max_size=5))
def test_no_structure_breaks_the_loader(data: dict[str, Any], tmp_path: Path) -> None:
    import msgspec

    _check(tmp_path / "any.yaml", msgspec.json.encode(data))


@pytest.mark.slow
@_quick
@given(before=st.text("abc:/ '\\${}", max_size=8), after=st.text("abc:/ '\\${}", max_size=8), place=st.integers(0, 6))
def test_no_report_holds_a_secret(before: str, after: str, place: int, tmp_path: Path) -> None:
    import msgspec

    text = f"{before}${{secret:s}}{after}"
    trigger: dict[str, Any] = {"subscriber": "stdout"}
    places: list[dict[str, Any]] = [
        {"subscriber": text},
        {"subscriber": {"http": {"url": text}}},
        {"subscriber": {"queue": {"topic": "t", "limit": text, "key": text}}},
        {"subscriber": {"fussy": {"value": text}}},
        {"delivery": {"retry": text, "backoff": text}},
        {"filters": [text, {"all": text}, {"not": text}], "start": text},
        {"broker": text, "filter": text, "dead_letter": {"http": text}},
    ]
    data = {"triggers": {"a": {**trigger, **places[place]}}, "secrets": {"s": {"env": "A"}}}
    _check(tmp_path / "any.yaml", msgspec.json.encode(data))
