"""Why an event is delivered, or not: filters, messages, order and retries."""

from __future__ import annotations

import io
import json
import sys
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from gateway_inspect import explain as explaining
from gateway_inspect.explain import retry_plan
from gateway_testing import FakeClock, MemoryFeed, ScriptedSink
from hypothesis import given
from hypothesis import strategies as st

from gateway_core.cli import main
from gateway_core.config.registry import Registry
from gateway_core.contract.component import BuildContext, FilterRef
from gateway_core.contract.config_model import DeliveryConfig, GatewayConfig
from gateway_core.contract.configs import load
from gateway_core.contract.event import Event
from gateway_core.contract.filters import all_of, clause_of
from gateway_core.contract.interfaces import Clause, Filter, Outcome
from gateway_core.contract.settings import Settings
from gateway_core.delivery import Subscription
from gateway_core.runtime.build import Builder
from gateway_core.runtime.offline import built_offline
from tests.budget import examples
from tests.installed import REGISTRY

QUICK = examples(80)
CONFIG = """\
brokers: {default: {ingress: [http: {listen: "127.0.0.1:8080"}], delivery: {retry: 2, backoff_delay_s: 1}}, other: {}}
triggers:
  eu:
    filters: [cesql: "type = 'order' AND subject LIKE 'eu/%'", not: {suffix: {type: .draft}}]
    subscriber: {http: {url: "http://u:pw@127.0.0.1:1/a?x=1", headers: {authorization: "Bearer ${secret:t}", x-a: b}}}
    delivery: {order: key, order_key: {attribute: subject}}
  all: {broker: other, subscriber: "http://127.0.0.1:1/b"}
  lost: {broker: nowhere, subscriber: "http://127.0.0.1:1/c"}
secrets: {t: {env: TOKEN}}
"""


def explain(config: str, tmp_path: Path, event: Event, **only: str) -> dict[str, Any]:
    file = tmp_path / "tidegate.yaml"
    file.write_text(config)
    registry = Registry.installed()
    loaded: GatewayConfig = load([file], registry, {"TOKEN": "s3cret"})
    return explaining.explain(built_offline(loaded, registry), event, only.get("broker"), only.get("trigger"))


@pytest.mark.slow
def test_a_trigger_that_does_not_want_it_is_not_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    triggers = (
        "triggers: {a: {filter: {type: x}, subscriber: http://127.0.0.1:1/}, b: {subscriber: http://127.0.0.1:1/}}\n"
    )
    (tmp_path / "c.yaml").write_text(f"brokers: {{default: {{}}}}\n{triggers}")
    (tmp_path / "e.json").write_text('{"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}')

    def explained(trigger: str) -> str:
        with pytest.raises(SystemExit):
            main(["explain", str(tmp_path / "e.json"), str(tmp_path / "c.yaml"), "--trigger", trigger])
        return capsys.readouterr().out

    assert "wanted only by others: b" in explained("a")
    assert "nobody" not in explained("a")
    assert "others" not in explained("b")


def test_the_place_of_the_type_in_a_table_is_shown_as_it_was_written(tmp_path: Path) -> None:
    config = "brokers: {default: {}}\ntriggers: {t: {subscriber: {spark: {path: 'tables/{type}'}}}}\n"
    (way,) = explain(config, tmp_path, event())["deliveries"]
    assert way["sink"].endswith("/tables/{type}")


def event(**attributes: str) -> Event:
    return Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "order", **attributes}, b"{}")


def test_a_match_says_what_would_be_sent_when_and_in_which_order(tmp_path: Path) -> None:
    found = explain(CONFIG, tmp_path, event(subject="eu/1"), trigger="eu")
    (way,) = found["deliveries"]
    assert (found["wanted"], way["matched"], way["fault"]) == (1, True, None)
    message = way["message"]
    assert (message["method"], message["url"], message["body"]) == ("POST", "http://127.0.0.1:1/a?x=1", "{}")
    assert {"ce-subject": "eu/1", "prefer": "reply"}.items() <= dict(message["headers"]).items()
    assert (way["order"], way["order_key"]) == ("key", "key eu/1")
    assert way["retries"] == [{"retry": 1, "after_s": [0.5, 1.0]}, {"retry": 2, "after_s": [1.0, 2.0]}]
    assert way["dead_letter"].endswith("/dead-letter/default.jsonl")


def test_no_secret_is_shown(tmp_path: Path) -> None:
    found = explain(CONFIG, tmp_path, event(subject="eu/1"))
    headers = dict(found["deliveries"][0]["message"]["headers"])
    assert (headers["authorization"], headers["x-a"]) == ("****", "****")
    assert "s3cret" not in json.dumps(found)
    assert "pw" not in json.dumps(found)


def test_the_clause_that_failed_is_named(tmp_path: Path) -> None:
    found = explain(CONFIG, tmp_path, event(subject="us/1"), broker="default")
    (way,) = found["deliveries"]
    assert (found["wanted"], way["matched"]) == (0, False)
    cesql, negated = way["filter"]["parts"]
    assert [(p["text"], p["matched"], p["found"]) for p in cesql["parts"]] == [
        ("type = 'order'", True, "type is 'order'"),
        ("subject LIKE 'eu/%'", False, "subject is 'us/1'"),
    ]
    assert (negated["text"], negated["matched"], negated["parts"][0]["matched"]) == ("not", True, False)


def test_a_trigger_without_broker_wants_nothing(tmp_path: Path) -> None:
    found = explain(CONFIG, tmp_path, event())
    ways = {way["name"]: way for way in found["deliveries"]}
    assert [name for name, way in ways.items() if way["matched"]] == ["all"]
    assert ways["lost"]["filter"]["text"] == "there is no broker 'nowhere'"


def test_a_record_has_its_topic_and_the_key_that_the_channel_gave_it(tmp_path: Path) -> None:
    config = """
        brokers: {default: {ingress: [http], channel: {kafka: {key: {attribute: subject}}}}}
        triggers: {a: {subscriber: {kafka: {topic: "t-{type}"}}, delivery: {order: key}}}
    """
    (way,) = explain(config, tmp_path, event(subject="s1"))["deliveries"]
    assert (way["message"]["topic"], way["message"]["key"], way["order_key"]) == ("t-order", "s1", "key s1")
    assert ["ce_type", "order"] in way["message"]["headers"]


def test_a_bridge_that_waits_for_its_sink_says_so(tmp_path: Path) -> None:
    config = "bridges: {in: {source: {kafka: {topic: t}}, sink: 'http://127.0.0.1:1/'}}"
    (way,) = explain(config, tmp_path, event())["deliveries"]
    assert (way["endless"], way["dead_letter"], way["retry_for_s"]) == (True, None, 86_400)


@pytest.mark.spec("HOLD-08")
def test_a_trigger_that_holds_its_events_says_so(tmp_path: Path) -> None:
    config = """
        brokers: {default: {ingress: [http]}}
        triggers:
          a: {subscriber: 'http://127.0.0.1:1/', delivery: {retry: 1, hold_while_down: true}}
          b: {subscriber: 'http://127.0.0.1:1/'}
    """
    found = explain(config, tmp_path, event())
    assert {way["name"]: way["hold_while_down"] for way in found["deliveries"]} == {"a": True, "b": False}


def test_the_parts_of_a_real_gateway_say_the_same(tmp_path: Path) -> None:
    file = tmp_path / "tidegate.yaml"
    file.write_text(CONFIG)
    registry, data = Registry.installed(), Path("tidegate-data")
    config = load([file], registry, {"TOKEN": "s3cret"})
    real = Builder(config, Settings(data_dir=data), registry, FakeClock()).build()
    wanted = event(subject="eu/1")
    assert explaining.explain(real, wanted) == explaining.explain(built_offline(config, registry), wanted)


def test_what_a_sink_can_not_write_is_a_fault(tmp_path: Path) -> None:
    config = "brokers: {default: {}}\ntriggers: {a: {subscriber: {kafka: {topic: 't-{region}'}}}}"
    (way,) = explain(config, tmp_path, event())["deliveries"]
    assert (way["matched"], way["message"]) == (True, None)
    assert "region" in way["fault"]


# -- filters explain what they do -------------------------------------------------------------------------------------

NAMES = st.sampled_from(["type", "subject", "ext"])
TEXTS = st.sampled_from(["", "a", "ab", "b", "1", "true"])
ATTRIBUTES = st.dictionaries(NAMES, TEXTS.filter(bool), min_size=1, max_size=2)
CESQL = st.sampled_from(
    ["type = 'a'", "EXISTS ext AND type = 'ab'", "NOT EXISTS subject", "ext > 0 AND type LIKE 'a%'", "subject = ext"]
)
LEAVES: st.SearchStrategy[dict[str, Any]] = (
    st.builds(lambda a: {"exact": a}, ATTRIBUTES)
    | st.builds(lambda a: {"prefix": a}, ATTRIBUTES)
    | st.builds(lambda a: {"suffix": a}, ATTRIBUTES)
    | st.builds(lambda text: {"cesql": text}, CESQL)
)
FILTERS: st.SearchStrategy[dict[str, Any]] = st.recursive(
    LEAVES,
    lambda inner: (
        st.builds(lambda w, fs: {w: fs}, st.sampled_from(["all", "any"]), st.lists(inner, min_size=1, max_size=3))
        | st.builds(lambda f: {"not": f}, inner)
    ),
    max_leaves=6,
)
CONTEXT = BuildContext("test", Path("/nowhere"), FakeClock(), REGISTRY)


def built(config: dict[str, Any]) -> Filter:
    made: Filter = CONTEXT.build(FilterRef.parse(config))
    return made


def holds(clause: Clause) -> bool:
    """What a clause with parts says by its parts."""
    inner = [holds(part) for part in clause.parts]
    if clause.text == "not":
        result = not inner[0]
    elif clause.text == "any":
        result = any(inner)
    else:
        result = all(inner) if inner else clause.matched
    assert result == clause.matched, clause
    return result


@pytest.mark.slow
@QUICK
@given(st.lists(FILTERS, min_size=1, max_size=2), st.dictionaries(NAMES, TEXTS | st.integers(0, 1) | st.booleans()))
def test_an_explanation_says_what_the_filter_does(configs: list[dict[str, Any]], attributes: dict[str, Any]) -> None:
    filter, event = all_of([built(config) for config in configs]), Event(attributes)
    clause = clause_of(filter, event)
    assert clause.matched == filter.matches(event)
    assert holds(clause) == clause.matched
    assert "does not say why" not in str(clause)


def test_a_filter_that_says_nothing_is_known_by_its_name() -> None:
    from gateway_core.contract.component import Component, Config
    from gateway_core.contract.hookspecs import hookimpl

    class Plugin:
        @hookimpl
        def gateway_filters(self) -> list[Component]:
            return [Component("odd", "Odd ids.", Config, lambda o, c: Filter(lambda e: e.attributes["id"] == "1"))]

    registry = Registry()
    registry.add("odd", Plugin())
    filter = registry.build(FilterRef("odd"), CONTEXT)
    assert clause_of(filter, Event({"id": "1"})) == Clause("odd", True)
    assert clause_of(filter, Event({"id": "2"})) == Clause("odd", False)
    assert clause_of(Filter(lambda e: False), Event({})).matched is False


# -- the plan is what happens -----------------------------------------------------------------------------------------


@QUICK
@given(
    st.sampled_from(["exponential", "linear"]),
    st.integers(0, 12),
    st.floats(0, 5),
    st.floats(0, 60),
    st.floats(0, 1, exclude_max=True),
)
def test_a_subscription_waits_as_planned(kind: str, retry: int, delay: float, most: float, draw: float) -> None:
    policy = DeliveryConfig.model_validate(
        {"backoff": kind, "retry": retry, "backoff_delay_s": delay, "backoff_max_s": most}
    )
    clock, times = FakeClock(), list[float]()

    class Failing(ScriptedSink):
        def send(self, event: Event, timeout_s: float, done: Any) -> None:
            times.append(clock.monotonic())
            super().send(event, timeout_s, done)

    letters = ScriptedSink()
    sink = Failing(default=Outcome(False, retry=True, code=503, reason="503"))
    subscription = Subscription("t", sink, policy, clock, dead_letter=letters, draw=lambda: draw)
    subscription.feed = MemoryFeed()
    assert subscription.offer(Event({"id": "1"}, position=1))
    while (wait := clock.next_timer()) is not None:
        clock.advance(wait)
    waits = [after - before for before, after in pairwise(times)]
    plan = retry_plan(policy)
    assert len(waits) == len(plan) == retry
    assert all(low - 1e-9 <= wait <= high + 1e-9 for wait, (low, high) in zip(waits, plan, strict=True))
    assert all(low == high / 2 for low, high in plan)
    assert len(letters.sent) == 1


# -- the command ------------------------------------------------------------------------------------------------------


def run(*args: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(["explain", *args])
    assert isinstance(caught.value.code, int)
    return caught.value.code


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TOKEN", "s3cret")
    (tmp_path / "tidegate.yaml").write_text(CONFIG)
    return str(tmp_path / "tidegate.yaml")


def written(tmp_path: Path, *events: dict[str, Any]) -> str:
    file = tmp_path / "events.jsonl"
    file.write_text("\n".join(json.dumps({"specversion": "1.0", "source": "/s", **e}) for e in events))
    return str(file)


def test_the_command_explains_in_words(config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, {"id": "1", "type": "order", "subject": "eu/1", "data": {"a": 1}})
    assert run(file, config, "--trigger", "eu") == 0
    out = capsys.readouterr().out
    assert "trigger eu of broker default: matched" in out
    assert "sent: POST http://127.0.0.1:1/a?x=1\n" in out
    assert "authorization: ****" in out
    assert "2 retries, 1.5 to 3 s of delay in total, then into the dead letter file:///" in out


@pytest.mark.spec("DELAY-10")
def test_an_event_that_is_due_later_is_told_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tidegate.yaml").write_text(
        "brokers: {default: {ingress: [http: {listen: '127.0.0.1:8080'}]}}\n"
        "triggers: {t: {subscriber: 'http://127.0.0.1:1/', delay: 90s, deliver_at: {attribute: due}}}\n"
    )
    config = str(tmp_path / "tidegate.yaml")
    day = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    texts = []
    for due in ({}, {"due": day}, {"due": "2020-01-01T00:00:00Z"}, {"due": "soon"}):
        run(written(tmp_path, {"id": "1", "type": "a", **due}), config)
        texts.append(capsys.readouterr().out)
    assert "waits until it is due, 90 s after it comes: if it came now, until 20" in texts[0]
    assert f"until {day[:19]}" in texts[1]
    assert "waits until" not in texts[2]
    assert "to the dead letter at once: deliver_at: due" in texts[3]


def test_nobody_wants_it(config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, {"id": "1", "type": "order"}, {"id": "2", "type": "order", "subject": "eu/1"})
    assert run(file, config, "--broker", "default", "--json") == 1
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["wanted"], second["wanted"]) == (0, 1)
    assert first["deliveries"][0]["filter"]["parts"][0]["parts"][1]["found"] == "subject is absent"


def test_what_the_ingress_refuses(config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(written(tmp_path, {"id": "1"}), config) == 1
    assert "refused at the ingress, 400: required attribute type is missing" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "nonsense", "[1]", '{"data_base64": "§"}'])
def test_what_is_no_event_in_json(
    text: str, config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert run("-", config) == 2
    assert capsys.readouterr().err.startswith("tidegate: ")


@pytest.mark.slow
def test_an_unknown_trigger(config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(written(tmp_path, {"id": "1"}), config, "--trigger", "eux") == 1
    assert "no trigger 'eux'; there are: eu, all, lost" in capsys.readouterr().err
