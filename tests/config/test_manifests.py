"""Knative manifests as config: what they become beside our own vocabulary."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from gateway_testing import FakeClock, MemoryFeed, ScriptedSink
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from config_plugins import registry

from gateway_core.contract.config_extension import DocumentOrigin
from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.configs import load, load_all
from gateway_core.contract.errors import ConfigError, Fault
from gateway_core.contract.event import Event
from gateway_core.contract.faults import render
from gateway_core.contract.interfaces import Outcome
from gateway_core.delivery import Subscription
from tests import installed
from tests.budget import examples

SAMPLES = Path(__file__).parent / "manifests"
REGISTRY = registry()
INSTALLED = installed.REGISTRY
V1 = "apiVersion: eventing.knative.dev/v1"
URL = "http://127.0.0.1:9000/"


def broker(name: str, namespace: str = "", spec: str = "{}") -> str:
    return f"---\n{V1}\nkind: Broker\nmetadata: {{name: {name}, namespace: {namespace}}}\nspec: {spec}\n"


def trigger(name: str, namespace: str = "", spec: str = "", subscriber: str = f"{{uri: '{URL}'}}") -> str:
    spec = f"{{subscriber: {subscriber}, {spec}}}"
    return f"---\n{V1}\nkind: Trigger\nmetadata: {{name: {name}, namespace: {namespace}}}\nspec: {spec}\n"


def _load(folder: Path, text: str, **env: str) -> GatewayConfig:
    file = folder / "any.yaml"
    file.write_text(text, encoding="utf-8")
    return load([file], REGISTRY, env)


def _faults(folder: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        _load(folder, text)
    return [f"{f.path}: {f.message}" for f in caught.value.faults]


def _url(config: GatewayConfig, trigger: str) -> Any:
    return config.triggers[trigger].subscriber.options.url  # type: ignore[union-attr]


def _listens(config: GatewayConfig, broker: str) -> list[tuple[str, str]]:
    options: list[Any] = [ref.options for ref in config.brokers[broker].ingress]
    return [(o.listen, o.path) for o in options]


# -- manifests as they are -----------------------------------------------------------------------------------------


@pytest.mark.spec("BR-06")
def test_a_broker_and_its_triggers_run_unchanged() -> None:
    found = load_all([SAMPLES / "broker-trigger.yaml"], INSTALLED, {})
    config, warnings = found.config, found.warnings
    assert [w for w in warnings if "dlq" not in w.message] == []  # its dead letter is a service's, as usual in Knative
    assert list(config.brokers) == ["shop.default"]
    default = config.brokers["shop.default"]
    assert _listens(config, "shop.default") == [("127.0.0.1:8080", "/shop/default")]
    delivery = default.delivery
    assert (delivery.retry, delivery.backoff, delivery.backoff_delay_s, delivery.timeout_s) == (
        5,
        "exponential",
        0.2,
        10,
    )
    assert default.dead_letter.options.url == "http://127.0.0.1:9001/dead"  # type: ignore[union-attr]
    assert sorted(config.triggers) == ["shop.audit", "shop.everything", "shop.orders"]
    assert {t.broker for t in config.triggers.values()} == {"shop.default"}  # `everything` names none
    assert config.triggers["shop.orders"].filter == {"type": "com.example.order.created", "tenant": "emea"}
    audit = config.triggers["shop.audit"]
    assert [f.name for f in audit.filters] == ["any", "not", "cesql"]
    assert audit.delivery.model_dump(exclude_unset=True) == {"retry": 2, "backoff": "linear", "backoff_delay_s": 1.0}
    assert audit.dead_letter is not None
    assert audit.dead_letter.options.url == "http://127.0.0.1:9003/audit-dead"  # type: ignore[union-attr]
    assert _url(config, "shop.everything") == "http://127.0.0.1:9004/"


@pytest.mark.spec("BR-07")
def test_a_trigger_may_come_before_its_broker_in_any_file(tmp_path: Path) -> None:
    found = load_all([SAMPLES / "trigger-before-broker.yaml"], INSTALLED, {})
    config, warnings = found.config, found.warnings
    assert [w for w in warnings if "dlq" not in w.message] == []  # its dead letter is a service's, as usual in Knative
    assert config.triggers["lab.early"].broker == "lab.late"
    assert "lab.late" in config.brokers
    (tmp_path / "1.yaml").write_text(trigger("early", "lab", "broker: late"))
    found = load_all([tmp_path], REGISTRY, {})
    config, warnings = found.config, found.warnings
    assert config.triggers["lab.early"].broker == "lab.late"
    assert any("there is no broker `lab.late`: the trigger waits for it" in w.message for w in warnings)
    (tmp_path / "2.yaml").write_text(broker("late", "lab"))
    found = load_all([tmp_path], REGISTRY, {})
    config, warnings = found.config, found.warnings
    assert [w for w in warnings if "dlq" not in w.message] == []  # its dead letter is a service's, as usual in Knative
    assert "lab.late" in config.brokers


def test_a_ref_is_a_fault_until_the_config_maps_it(tmp_path: Path) -> None:
    sample = SAMPLES / "needs-kubernetes.yaml"
    with pytest.raises(ConfigError) as caught:
        load([sample], INSTALLED, {})
    (fault,) = caught.value.faults
    assert (fault.path, fault.line) == ("spec.subscriber.ref", 10)
    assert "`refs: {Service/shop/order-service: http://HOST/PATH}`" in fault.remedy
    own = tmp_path / "tidegate.yaml"
    own.write_text(f"refs: {{Service/order-service: '{URL}'}}\n")
    assert _url(load([sample, own], INSTALLED, {}), "shop.by-reference") == URL


def test_what_kubectl_prints_is_read() -> None:
    found = load_all([SAMPLES / "as-kubectl-writes.yaml"], INSTALLED, {})
    config, warnings = found.config, found.warnings
    assert [w for w in warnings if "dlq" not in w.message] == []  # its dead letter is a service's, as usual in Knative
    assert config.triggers["shop.entries"].broker == "shop.ledger"
    assert config.brokers["shop.ledger"].delivery.retry == 3


def test_all_samples_are_one_config_of_three_namespaces(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(f"include: ['{SAMPLES}/*.yaml']\nrefs: {{Service/order-service: '{URL}'}}\n")
    config = load([own], INSTALLED, {})
    assert sorted(config.brokers) == ["lab.late", "shop.default", "shop.ledger"]
    assert len({tuple(_listens(config, name)) for name in config.brokers}) == 3


# -- names --------------------------------------------------------------------------------------------------------


def test_no_other_manifest_changes_a_name(tmp_path: Path) -> None:
    documents = [
        broker("a"),
        broker("a", "default2"),
        broker("b", "shop"),
        broker("b", "default"),
        trigger("a", "shop"),
    ]
    for order in itertools.islice(itertools.permutations(documents), 0, 120, 17):
        config = _load(tmp_path, "".join(order))
        assert sorted(config.brokers) == ["a", "b", "default2.a", "shop.b"]
        assert config.triggers["shop.a"].broker == "shop.default"
    assert list(_load(tmp_path, broker("b", "shop")).brokers) == ["shop.b"]


def test_a_broker_knows_its_manifest(tmp_path: Path) -> None:
    config = _load(tmp_path, "brokers: {own: {}}\n" + broker("a", "shop") + trigger("b"))
    assert config.brokers["shop.a"].origin == DocumentOrigin("Broker", "a", "shop")
    assert config.triggers["b"].origin == DocumentOrigin("Trigger", "b", "default")
    assert config.brokers["own"].origin is None
    here = config.brokers["shop.a"].origin
    assert here is not None
    assert (Path(here.file).name, here.line) == ("any.yaml", 5)


def test_a_manifest_that_moved_is_the_same(tmp_path: Path) -> None:
    """A reload leaves alone what did not change."""
    text = broker("a", "shop", "{delivery: {retry: 2}}") + trigger("b", "shop")
    one, two = _load(tmp_path, text), _load(tmp_path, trigger("c") + "\n\n" + text)
    assert one.brokers["shop.a"] == two.brokers["shop.a"]
    assert one.triggers["shop.b"] == two.triggers["shop.b"]
    assert one.triggers["shop.b"] != two.triggers["c"]


@pytest.mark.spec("BR-06")
def test_where_a_triggers_broker_is_said(tmp_path: Path) -> None:
    labels = "{name: b, namespace: shop, labels: {eventing.knative.dev/broker: labelled}}"
    by_label = trigger("b", "shop").replace("{name: b, namespace: shop}", labels)
    assert _load(tmp_path, by_label).triggers["shop.b"].broker == "shop.labelled"
    other = trigger("b", "shop", "brokerRef: {kind: Broker, name: c, namespace: lab}")
    assert _load(tmp_path, other).triggers["shop.b"].broker == "lab.c"
    own = "triggers: {shop.b: {broker: own}}\n" + trigger("b", "shop")
    assert _load(tmp_path, own).triggers["shop.b"].broker == "own"
    two = _faults(tmp_path, trigger("b", "shop", "broker: a, brokerRef: {name: c}"))
    assert two == ["spec.brokerRef: `broker` and `brokerRef` exclude each other"]


# -- beside our own vocabulary -------------------------------------------------------------------------------------


def test_our_own_vocabulary_adds_to_a_manifest(tmp_path: Path) -> None:
    own = """\
brokers:
  shop.default:
    ingress: [http: {listen: 127.0.0.1:7000}]
    channel: {log: {max_bytes: 5000}}
    delivery: {max_in_flight: 3}
triggers:
  shop.late: {start: earliest, delivery: {order: key}}
"""
    manifests = broker("default", "shop", "{delivery: {retry: 2}}") + trigger("late", "shop")
    for text in (own + manifests, manifests + "---\n" + own):
        config = _load(tmp_path, text)
        default, late = config.brokers["shop.default"], config.triggers["shop.late"]
        assert _listens(config, "shop.default") == [("127.0.0.1:7000", "/")]
        assert default.channel.options.max_bytes == 5000  # type: ignore[union-attr]
        assert (default.delivery.retry, default.delivery.max_in_flight) == (2, 3)
        assert (late.start, late.delivery.order, late.broker) == ("earliest", "key", "shop.default")


def test_the_address_comes_from_the_environment(tmp_path: Path) -> None:
    text = broker("a") + broker("b", "shop")
    config = _load(tmp_path, text, TIDEGATE_LISTEN="0.0.0.0:80")
    assert _listens(config, "a") == [("0.0.0.0:80", "/default/a")]
    assert _listens(config, "shop.b") == [("0.0.0.0:80", "/shop/b")]


def test_places_are_filled_in_manifests(tmp_path: Path) -> None:
    text = f"""\
{V1}
kind: Broker
metadata:
  name: default
  namespace: ${{NS}}
spec:
  delivery:
    backoffDelay: ${{DELAY}}
    retry: ${{N}}
---
{V1}
kind: Trigger
metadata:
  name: late
  namespace: ${{NS}}
spec:
  subscriber:
    uri: ${{URL}}
"""
    config = _load(tmp_path, text, NS="shop", DELAY="PT2S", N="4", URL=URL)
    delivery = config.brokers["shop.default"].delivery
    assert (delivery.backoff_delay_s, delivery.retry, _url(config, "shop.late")) == (2, 4, URL)
    assert "isn't set" in _faults(tmp_path, broker("'${NS}'"))[0]


def test_a_secret_in_an_address_is_not_shown(tmp_path: Path) -> None:
    text = "secrets: {s: {env: S}}\nrefs: {Service/a: 'http://${secret:s}@127.0.0.1/'}\n"
    text += trigger("a", subscriber="{ref: {kind: Service, name: a}}")
    text += trigger("b", subscriber="{uri: 'http://${secret:s}@127.0.0.1/'}")
    config = _load(tmp_path, text, S="hunter2-secret")
    assert _url(config, "a") == _url(config, "b") == "http://hunter2-secret@127.0.0.1/"
    assert "hunter2" not in repr(config) + repr(config.triggers["a"].subscriber.options)


# -- delivery -----------------------------------------------------------------------------------------------------


def test_a_first_wait_above_our_longest_is_kept(tmp_path: Path) -> None:
    text = broker("a", spec="{delivery: {backoffDelay: PT2M, retryAfterMax: PT0S}}")
    delivery = _load(tmp_path, text).brokers["a"].delivery
    assert (delivery.backoff_delay_s, delivery.backoff_max_s, delivery.retry_after_max_s) == (120, 120, 0)
    own = "brokers: {a: {delivery: {backoff_max_s: 600}}}\n"
    assert _load(tmp_path, own + text).brokers["a"].delivery.backoff_max_s == 600


@pytest.mark.spec("SAFE-82")
@pytest.mark.parametrize(
    ("of_broker", "of_trigger", "attempts", "seconds"),
    [
        ("", "", None, 86_400),
        ("", "delivery: {backoffDelay: PT1S}", None, 86_400),
        ("delivery: {retry: 0}", "", 1, 0),
        ("delivery: {retry: 3}", "", 4, 1.4),
        ("delivery: {retry: 3}", "delivery: {backoffDelay: PT1S}", 4, 7),
        ("delivery: {retry: 3}", "delivery: {retry: 5}", 6, 6.2),
        ("", "delivery: {retry: 40}", 41, 0.2 * 255 + 32 * 30),  # the longest wait stays at 30 s
    ],
)
def test_retry_is_kept_exactly_and_the_default_is_a_day(
    tmp_path: Path, of_broker: str, of_trigger: str, attempts: int | None, seconds: float
) -> None:
    config = _load(tmp_path, broker("default", spec=f"{{{of_broker}}}") + trigger("a", spec=of_trigger))
    policy = config.triggers["a"].delivery.over(config.brokers["default"].delivery)
    clock, sink, letters = FakeClock(), ScriptedSink(default=Outcome(False, retry=True, code=503)), ScriptedSink()
    subscription = Subscription("a", sink, policy, clock, dead_letter=letters, draw=lambda: 1.0)
    subscription.feed = MemoryFeed()
    assert subscription.offer(Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, position=1))
    clock.advance(max(0, seconds - 0.001))
    assert bool(letters.sent) == (seconds == 0)
    clock.advance(0.002 if attempts is not None else 300)
    assert len(letters.sent) == 1
    assert attempts in (len(sink.sent), None)


@pytest.mark.parametrize(("word", "order"), [("ordered", "partition"), ("unordered", "unordered")])
def test_the_order_annotation_of_knatives_kafka_broker(tmp_path: Path, word: str, order: str) -> None:
    annotations = f"{{name: a, annotations: {{kafka.eventing.knative.dev/delivery.order: {word}}}}}"
    text = trigger("a", spec="delivery: {retry: 1}").replace("{name: a, namespace: }", annotations)
    delivery = _load(tmp_path, text).triggers["a"].delivery
    assert (delivery.order, delivery.retry) == (order, 1)


# -- refs ---------------------------------------------------------------------------------------------------------

SERVICE = "{ref: {apiVersion: v1, kind: Service, name: a}%s}"


@pytest.mark.parametrize(
    "keys",
    [
        ["v1/Service/shop/a", "Service/shop/a"],
        ["Service/shop/a", "v1/Service/a"],
        ["v1/Service/a", "Service/a"],
        ["Service/a", "serving.knative.dev/v1/Service/a"],
        ["Service/a", "Service/lab/a"],
    ],
)
def test_the_most_exact_key_of_refs_wins(tmp_path: Path, keys: list[str]) -> None:
    for order in (keys, keys[::-1]):
        refs = ", ".join(f"{key}: '{URL}{keys.index(key)}'" for key in order)
        config = _load(tmp_path, f"refs: {{{refs}}}\n" + trigger("late", "shop", subscriber=SERVICE % ""))
        assert _url(config, "shop.late") == URL + "0"


def test_a_ref_may_stand_for_any_sink(tmp_path: Path) -> None:
    text = "refs: {KafkaSink/letters: {queue: {topic: letters}}}\n"
    text += broker("a", spec="{delivery: {deadLetterSink: {ref: {kind: KafkaSink, name: letters}}}}")
    config = _load(tmp_path, text)
    assert config.brokers["a"].dead_letter.options.topic == "letters"  # type: ignore[union-attr]
    assert config.section("refs")["KafkaSink/letters"].name == "queue"


AUDIENCE = "{ref: {kind: Service, name: a, apiVersion: v1}, audience: orders}"
_TOKEN = "bearer_file: {path: /tokens/orders, audience: orders}"


@pytest.mark.spec("OC-12")
@pytest.mark.parametrize(
    ("refs", "subscriber"),
    [
        ("'https://h/'", AUDIENCE),
        ("{http: {url: 'https://h/'}}", AUDIENCE),
        ("{http: {url: 'https://h/', credentials: {bearer_file: {path: /tokens/orders}}}}", AUDIENCE),
        ("{http: {url: 'https://h/', credentials: {bearer_file: {path: /t, audience: billing}}}}", AUDIENCE),
        ("{http: {url: 'https://h/', credentials: {hmac: {preset: github, secrets: [0123456789abcdef]}}}}", AUDIENCE),
        ("{http: {url: 'https://h/', credentials: null}}", AUDIENCE),
        ("{http: {url: 'https://h/', credentials: [audience]}}", AUDIENCE),
        (f"{{http: {{url: 'https://h/', credentials: {{{_TOKEN}}}}}}}", AUDIENCE.replace("orders", "Orders")),
        ("'https://h/'", AUDIENCE[:-1] + ", uri: x}"),
        ("'https://h/'", "{uri: 'https://h/', audience: orders}"),
    ],
)
def test_an_audience_without_a_token_is_a_fault(tmp_path: Path, refs: str, subscriber: str) -> None:
    """The subscriber would refuse the events, or take them from anyone."""
    text = f"refs: {{Service/a: {refs}}}\n" + broker("default")
    for manifest in (
        trigger("late", subscriber=subscriber),
        trigger("late", spec=f"delivery: {{deadLetterSink: {subscriber}}}"),
        broker("other", spec=f"{{delivery: {{deadLetterSink: {subscriber}}}}}"),
    ):
        (tmp_path / "any.yaml").write_text(text + manifest)
        with pytest.raises(ConfigError) as caught:
            load([tmp_path / "any.yaml"], INSTALLED, {})
        found = [f for f in caught.value.faults if f.path.endswith(".audience")]
        assert [f.message.partition(", ")[2] for f in found] == ["and the gateway would send none"]
        assert "`refs`" in found[0].remedy


@pytest.mark.spec("OC-12")
def test_an_audience_with_a_token_for_it(tmp_path: Path) -> None:
    oauth2 = "oauth2: {token_url: 'https://l/', client_id: a, client_secret: b, audience: '${AUDIENCE}'}"
    for credentials in (_TOKEN, oauth2):
        text = f"refs: {{Service/a: {{http: {{url: 'https://h/', credentials: {{{credentials}}}}}}}}}\n"
        (tmp_path / "any.yaml").write_text(text + broker("default") + trigger("late", subscriber=AUDIENCE))
        config = load([tmp_path / "any.yaml"], INSTALLED, {"AUDIENCE": "orders"})
        options: Any = config.triggers["late"].subscriber.options
        assert options.credentials.audience == "orders"


def test_a_ref_to_a_broker_of_the_config_needs_no_entry(tmp_path: Path) -> None:
    ref = "{deadLetterSink: {ref: {apiVersion: eventing.knative.dev/v1, kind: Broker, name: letters}}}"
    text = trigger("late", "shop", f"delivery: {ref}") + broker("letters", "shop")
    letters = _load(tmp_path, text, TIDEGATE_LISTEN="127.0.0.1:80").triggers["shop.late"].dead_letter
    assert letters is not None
    assert letters.options.url == "http://127.0.0.1:80/shop/letters"  # type: ignore[union-attr]
    elsewhere = "brokers: {shop.letters: {ingress: [http: {listen: 127.0.0.1:7000}]}}\n"
    assert "`Broker/shop/letters` is a Kubernetes object" in _faults(tmp_path, elsewhere + text)[0]


@pytest.mark.parametrize(
    ("uri", "found"),
    [("/orders", "http://h:1/orders"), ("orders?a=b", "http://h:1/base/orders?a=b"), ("../x", "http://h:1/x")],
)
def test_a_uri_beside_a_ref_is_relative_to_it(tmp_path: Path, uri: str, found: str) -> None:
    text = "refs: {Service/a: 'http://h:1/base/'}\n" + trigger("late", subscriber=SERVICE % f", uri: '{uri}'")
    assert _url(_load(tmp_path, text), "late") == found


# -- anything -----------------------------------------------------------------------------------------------------

_words = st.sampled_from(
    ["apiVersion", "kind", "metadata", "spec", "items", "name", "namespace", "labels", "annotations", "broker", "ref",
     "brokerRef", "filter", "filters", "attributes", "subscriber", "uri", "delivery", "deadLetterSink", "backoffDelay",
     "timeout", "retry", "config", "eventing.knative.dev/v1", "eventing.knative.dev/broker", "Broker", "Trigger",
     "List", "v1", "default", "PT1S", "http://x/", "${A}", "${secret:a}", "all", "exact", "Service", "Service/a"]
)  # fmt: skip
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | _words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_words, inner, max_size=5),
    max_leaves=25,
)
_specs = st.fixed_dictionaries(
    {},
    optional={
        "broker": _values,
        "filter": st.fixed_dictionaries({}, optional={"attributes": _values}) | _values,
        "filters": _values,
        "subscriber": st.fixed_dictionaries({}, optional={"uri": _values, "ref": _values}) | _values,
        "delivery": st.fixed_dictionaries(
            {}, optional={"deadLetterSink": _values, "backoffDelay": _values, "retry": _values}
        ),
    },
)
_manifests = st.fixed_dictionaries(
    {
        "apiVersion": st.sampled_from(["eventing.knative.dev/v1", "v1"]) | _values,
        "kind": st.sampled_from(["Broker", "Trigger", "List"]) | _values,
    },
    optional={
        "metadata": st.fixed_dictionaries({"name": st.just("default")}, optional={"namespace": _values}) | _values,
        "spec": _specs | _values,
        "items": _values,
    },
)
_own = st.fixed_dictionaries({}, optional={"brokers": _values, "triggers": _values, "refs": _values})


@pytest.mark.slow
@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(documents=st.lists(_manifests, min_size=1, max_size=3), own=_own)
def test_no_manifest_breaks_the_loader(documents: list[Any], own: dict[str, Any], tmp_path: Path) -> None:
    """Any manifest is read or refused with faults that have a place."""
    file = tmp_path / "any.yaml"
    nested: dict[str, Any] = {"apiVersion": "v1", "kind": "List", "items": documents[1:]}
    file.write_bytes(b"\n---\n".join(msgspec.json.encode(d) for d in (own, documents[0], nested)))
    faults: list[Fault] = []
    try:
        found = load_all([file], REGISTRY, {"A": "a"})
        config, warnings = found.config, found.warnings
        assert isinstance(config, GatewayConfig)
        assert render([], warnings=warnings)
    except ConfigError as e:
        faults = e.faults
    assert all(f.line and f.file == str(file) and f.message for f in faults)
