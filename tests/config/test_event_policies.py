"""Knative's EventPolicy manifests and `config-features` as policies; what can't be kept is a fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gateway_access.policies import PolicyConfig

from gateway_core.config.registry import Registry
from gateway_core.contract.component import Component, Config
from gateway_core.contract.config_extension import DocumentOrigin
from gateway_core.contract.configs import load_all
from gateway_core.contract.errors import ConfigError
from gateway_core.contract.hookspecs import hookimpl
from gateway_core.contract.loaded import Loaded

SAMPLES = Path(__file__).parent / "policies"
BROKER = "apiVersion: eventing.knative.dev/v1\nkind: Broker\nmetadata: {name: NAME, namespace: shop, labels: LABELS}\n"
POLICY = "apiVersion: eventing.knative.dev/v1alpha1\nkind: EventPolicy\nmetadata: {name: p, namespace: shop}\nspec: "
OF_BROKER = "apiVersion: eventing.knative.dev/v1, kind: Broker"
TO = f"to: [{{ref: {{{OF_BROKER}, name: orders}}}}]"
FEATURES = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config-features}\ndata: "


class Proofs:
    """Authenticators that are only looked at."""

    @hookimpl
    def gateway_authenticators(self) -> list[Component]:
        def build(options: Any, context: Any) -> None:
            raise NotImplementedError

        return [Component("proof", "A test's.", Config, build)]


def _registry() -> Registry:
    registry = Registry.installed()
    registry.add("proofs", Proofs())
    return registry


REGISTRY = _registry()


def _broker(name: str = "orders", labels: str = "{}") -> str:
    return BROKER.replace("NAME", name).replace("LABELS", labels)


def _ingress(*brokers: str, how: str = "proof") -> str:
    """The config's own part: ingresses that find out who sends."""
    lines = ["brokers:"]
    for number, broker in enumerate(brokers):
        lines.append(f"  {broker}: {{ingress: [http: {{listen: '127.0.0.1:{9000 + number}', authenticate: [{how}]}}]}}")
    return "\n".join(lines) + "\n"


def _load(folder: Path, *documents: str, files: tuple[Path, ...] = ()) -> Loaded:
    file = folder / "any.yaml"
    file.write_text("\n---\n".join(documents), encoding="utf-8")
    return load_all([*files, file], REGISTRY, {})


def _faults(folder: Path, *documents: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        _load(folder, *documents)
    assert all(fault.file and fault.line for fault in caught.value.faults)
    return [f"{f.path}: {f.message}" for f in caught.value.faults]


def _policies(loaded: Loaded) -> dict[str, PolicyConfig]:
    return dict(loaded.config.section("policies"))


# -- Knative's own examples -----------------------------------------------------------------------------------------


@pytest.mark.spec("PO-10")
def test_the_policy_of_knatives_docs_runs_as_it_is(tmp_path: Path) -> None:
    loaded = _load(tmp_path, _ingress("my-broker", "special"), files=(SAMPLES / "authorization.yaml",))
    assert not loaded.warnings
    (policy,) = _policies(loaded).values()
    assert policy.brokers == ["my-broker", "special"]
    assert policy.subjects == [
        "system:serviceaccount:another-namespace:my-source-oidc-sources.knative.dev-pingsource",
        "system:serviceaccount:default:trusted-app",
        "system:serviceaccount:default:other-*",
    ]  # as in the status that the page shows
    assert [ref.name for ref in policy.filters] == ["cesql", "exact"]
    assert policy.origin == DocumentOrigin("EventPolicy", "my-event-policy", "default")
    assert policy.authenticator is None


@pytest.mark.spec("PO-10", "PO-12")
def test_the_example_of_knatives_docs_runs_as_it_is(tmp_path: Path) -> None:
    folder, own = (
        tmp_path / "own",
        _ingress("namespace-1.broker", how="{oidc: {issuer: 'https://k.example', audience: a}}"),
    )
    folder.mkdir()
    loaded = _load(folder, own, files=(SAMPLES / "namespaces.yaml",))
    (policy,) = _policies(loaded).values()
    assert (policy.brokers, policy.authenticator) == (["namespace-1.broker"], "oidc")
    assert policy.subjects == ["system:serviceaccount:namespace-2:pingsource-2-oidc-sources.knative.dev-pingsource"]


@pytest.mark.spec("PO-11")
def test_what_knatives_test_resource_has_and_nobody_can_know_is_a_fault(tmp_path: Path) -> None:
    labels = (
        "{matchlabel1: matchlabelvalue1, matchlabel2: matchlabelvalue2, matchlabelselector1: matchlabelselectorvalue1}"
    )
    manifests = (_broker("my-broker") + "---\n" + _broker("labelled", labels)).replace("shop", "bar")
    with pytest.raises(ConfigError) as caught:
        _load(tmp_path, _ingress("bar.my-broker", "bar.labelled"), manifests, files=(SAMPLES / "rekt-full.yaml",))
    found = [f"{f.path}: {f.message}" for f in caught.value.faults]
    assert found[0] == "spec.from[0].ref.name: nobody knows the subject of `Broker/my-ns-2/my-broker`"
    assert found[1].startswith("spec.filters[0].cesql: ")  # Knative refuses it, too: the pattern is no string
    assert len(found) == 2
    text = (SAMPLES / "rekt-full.yaml").read_text().replace("event.%.type", "'event.%.type'")
    subjects = "subjects: {Broker/my-ns-2/my-broker: [one, two]}"
    loaded = _load(tmp_path, _ingress("bar.my-broker", "bar.labelled") + subjects, manifests, text)
    (policy,) = _policies(loaded).values()
    assert policy.brokers == ["bar.my-broker", "bar.labelled"]
    assert policy.subjects == ["one", "two", "my-sub"]


# eventpolicy_validation_test.go of Knative Eventing, commit 8cf4c4b6: what it finds valid, or the field at fault
VALIDATION = [
    ("{}", None),
    ("{from: [{}]}", "spec.from[0].sub"),
    ("{from: [{ref: {apiVersion: a, kind: b}}]}", "spec.from[0].ref.name"),
    ("{from: [{ref: {apiVersion: a, name: b}}]}", "spec.from[0].ref.kind"),
    ("{from: [{ref: {kind: a, name: b}}]}", "spec.from[0].ref.apiVersion"),
    ("{from: [{ref: {apiVersion: a, kind: b, name: c}, sub: abc}]}", "spec.from[0].sub"),
    ("{to: [{}]}", "spec.to[0].ref"),
    ("{to: [{ref: {apiVersion: a, kind: b, name: c}, selector: {}}]}", "spec.to[0].ref"),
    ("{to: [{ref: {apiVersion: eventing.knative.dev/v1, kind: Broker}}]}", "spec.to[0].ref.name"),
    ("{to: [{ref: {apiVersion: a, name: b}}]}", "spec.to[0].ref.kind"),
    ("{to: [{ref: {kind: a, name: b}}]}", "spec.to[0].ref.apiVersion"),
    ("{from: [{sub: 'a*c'}]}", "spec.from[0].sub"),
    ("{from: [{sub: '*a'}]}", "spec.from[0].sub"),
    ("{from: [{sub: 'a*'}]}", None),
    ("{from: [{sub: '*'}]}", None),
    ("{from: [{sub: '*'}], filters: [{prefix: {type: example}}]}", None),
    ("{from: [{sub: '*'}], filters: [{cesql: 'type LIKE id'}]}", "spec.filters[0].cesql"),
]


@pytest.mark.spec("PO-10", "PO-11")
@pytest.mark.parametrize(("spec", "fault"), VALIDATION, ids=range(len(VALIDATION)))
def test_knatives_validation(spec: str, fault: str | None, tmp_path: Path) -> None:
    documents = (_ingress("shop.orders"), _broker(), POLICY + spec)
    if fault is None:
        assert _policies(_load(tmp_path, *documents))["shop.p"].brokers == ["shop.orders"]
    else:
        (found,) = _faults(tmp_path, *documents)
        assert found.startswith(f"{fault}: ")


# -- what else is a fault ---------------------------------------------------------------------------------------------

EXPRESSION = "to[0].selector.matchExpressions[0]"
OF_OTHERS = [
    ("to: [{ref: {apiVersion: messaging.knative.dev/v1, kind: Channel, name: c}}]", "to[0].ref.kind"),
    ("to: [{ref: {BROKER, name: order}}]", "to[0].ref.name"),
    ("to: [{ref: {BROKER, name: orders, namespace: x}}]", "to[0].ref.namespace"),
    ("to: [{selector: {apiVersion: apps/v1, kind: Deployment, matchLabels: {a: b}}}]", "to[0].selector.kind"),
    ("to: [{selector: {BROKER, matchLabels: {tier: no}}}]", "to[0].selector.matchLabels"),
    ("to: [{selector: {BROKER, matchLabels: {tier: 'no'}}}]", "to[0].selector.matchLabels"),
    ("to: [{selector: {BROKER}}]", "to[0].selector.matchLabels"),
    ("to: [{selector: {BROKER, matchLabels: {a: }}}]", "to[0].selector.matchLabels.a"),
    ("to: [{selector: {BROKER, matchLabels: {tier: gold}, x: y}}]", "to[0].selector.x"),
    ("to: [{selector: {BROKER, matchExpressions: [{key: a, operator: Like}]}}]", f"{EXPRESSION}.operator"),
    ("to: [{selector: {BROKER, matchExpressions: [{key: a}]}}]", f"{EXPRESSION}.operator"),
    ("to: [{selector: {BROKER, matchExpressions: [{key: a, operator: In}]}}]", f"{EXPRESSION}.values"),
    ("to: [{selector: {BROKER, matchExpressions: [{key: a, operator: Exists, values: [b]}]}}]", f"{EXPRESSION}.values"),
    ("from: [{ref: {apiVersion: v1, kind: ServiceAccount, name: c}}]", "from[0].ref.name"),
    ("from: [{ref: {apiVersion: x/v1, kind: PingSource, name: c}}]", "from[0].ref.name"),
    ("from: [{sub: anonymous}]", "from[0].sub"),
    ("from: [{sub: 7}]", "from[0].sub"),
    ("from: everyone", "from"),
    ("from: [everyone]", "from[0]"),
    ("from: [{sub: a, claims: {b: c}}]", "from[0].claims"),
    ("from: [{sub: a}], filters: [{like: {type: a}}]", "filters[0]"),
    ("from: [{sub: a}], audience: b", "audience"),
]


@pytest.mark.spec("PO-11")
@pytest.mark.parametrize(("spec", "fault"), OF_OTHERS, ids=range(len(OF_OTHERS)))
def test_what_would_not_be_enforced_is_a_fault(spec: str, fault: str, tmp_path: Path) -> None:
    policy = POLICY + "{" + spec.replace("BROKER", OF_BROKER) + "}"
    found, *more = _faults(tmp_path, _ingress("shop.orders"), _broker(labels="{tier: gold}"), policy)
    assert found.startswith(f"spec.{fault}: ")
    assert not more


@pytest.mark.spec("PO-11")
def test_a_policy_where_nobody_finds_out_who_sends_is_a_fault(tmp_path: Path) -> None:
    policy = POLICY + f"{{{TO}, from: [{{sub: 'a*'}}]}}"
    (found,) = _faults(tmp_path, _broker(), policy)
    assert found.startswith("brokers.shop.orders.ingress[0]: no sender can fulfil a policy of the broker `shop.orders`")
    closed = _load(tmp_path, _broker(), POLICY + f"{{{TO}}}")  # nobody may: nothing to find out
    assert _policies(closed)["shop.p"].subjects == []
    assert ["allows nobody" in w.message for w in closed.warnings] == [True]


@pytest.mark.spec("PO-11")
def test_other_versions_and_lists(tmp_path: Path) -> None:
    parts = _ingress("shop.orders"), _broker()
    found = _faults(tmp_path, *parts, (POLICY + "{}").replace("v1alpha1", "v1beta1"))
    assert found == [
        "apiVersion: `EventPolicy` of `eventing.knative.dev/v1beta1` restricts access, and the gateway would not "
        "enforce it"
    ]
    item = "{apiVersion: eventing.knative.dev/v1alpha1, kind: EventPolicy, metadata: {name: p, namespace: shop}}"
    for version, kind in (("v1", "List"), ("eventing.knative.dev/v1alpha1", "EventPolicyList")):
        loaded = _load(tmp_path, *parts, f"apiVersion: {version}\nkind: {kind}\nitems: [{item}]")
        assert list(_policies(loaded)) == ["shop.p"]
    assert any("defined twice" in text for text in _faults(tmp_path, *parts, POLICY + "{}", POLICY + "{}"))


@pytest.mark.spec("PO-10")
@pytest.mark.parametrize(
    ("requirement", "wanted"),
    [
        ("matchLabels: {tier: gold}", ["shop.a"]),
        ("matchExpressions: [{key: tier, operator: In, values: [gold, silver]}]", ["shop.a", "shop.b"]),
        ("matchExpressions: [{key: tier, operator: NotIn, values: [gold]}]", ["shop.b", "shop.c"]),
        ("matchExpressions: [{key: tier, operator: Exists}]", ["shop.a", "shop.b"]),
        ("matchExpressions: [{key: tier, operator: DoesNotExist}]", ["shop.c"]),
        ("matchLabels: {tier: gold}, matchExpressions: [{key: x, operator: DoesNotExist}]", ["shop.a"]),
    ],
)
def test_selectors_choose_brokers_of_the_namespace_by_label(
    requirement: str, wanted: list[str], tmp_path: Path
) -> None:
    brokers = _broker("a", "{tier: gold}"), _broker("b", "{tier: silver}"), _broker("c")
    elsewhere = _broker("d", "{tier: gold}").replace("shop", "other")
    spec = f"{{to: [{{selector: {{{OF_BROKER}, {requirement}}}}}], from: [{{sub: x}}]}}"
    own = _ingress(*(f"shop.{name}" for name in "abc"), "other.d")
    assert _policies(_load(tmp_path, own, *brokers, elsewhere, POLICY + spec))["shop.p"].brokers == wanted


@pytest.mark.spec("PO-10")
def test_without_to_it_is_about_every_broker_of_its_namespace(tmp_path: Path) -> None:
    own = _ingress("shop.orders", "shop.own", "plain", "other.broker")
    manifests = _broker(), POLICY + "{from: [{sub: x}]}"
    assert _policies(_load(tmp_path, own, *manifests))["shop.p"].brokers == ["shop.orders", "shop.own"]
    in_default = (POLICY + "{from: [{sub: x}], to: []}").replace("namespace: shop", "namespace: default")
    assert _policies(_load(tmp_path, own, _broker(), in_default))["p"].brokers == ["plain"]
    (found,) = _faults(tmp_path, own, POLICY.replace("shop", "empty") + "{}")
    assert found.startswith("spec.to: the policy is about all brokers of the namespace `empty`, and there is none")


@pytest.mark.spec("PO-10")
def test_the_section_adds_what_a_manifest_cannot_say(tmp_path: Path) -> None:
    own = _ingress("shop.orders") + "policies: {shop.p: {claims: {iss: 'https://k.example'}, authenticator: proof}}\n"
    policy = _policies(_load(tmp_path, own, _broker(), POLICY + "{from: [{sub: x}]}"))["shop.p"]
    assert (policy.subjects, policy.claims, policy.authenticator) == (["x"], {"iss": "https://k.example"}, "proof")
    own = _ingress("shop.orders") + "policies: {shop.p: {from: ['*']}}\n"
    (found,) = _faults(tmp_path, own, _broker(), POLICY + "{from: [{sub: x}]}")
    assert "the manifest sets this too: spec.from" in found


@pytest.mark.spec("PO-11")
def test_policies_in_force_in_the_cluster_must_be_in_the_config(tmp_path: Path) -> None:
    status = "status: {policies: [{apiVersion: eventing.knative.dev/v1alpha1, name: p}]}\n"
    own = _ingress("shop.orders", "shop.other")
    (found,) = _faults(tmp_path, own, _broker() + status)
    assert found.startswith("status.policies[0].name: the policy `p` is in force there")
    (found,) = _faults(tmp_path, own, _broker("other") + status, _broker(), POLICY + f"{{{TO}, from: [{{sub: x}}]}}")
    assert found.startswith("status.policies[0].name: the policy `p` is in force there")
    _load(tmp_path, own, _broker() + status, POLICY + f"{{{TO}, from: [{{sub: x}}]}}")


STATUS = [
    ("address: {url: http://b, audience: eventing.knative.dev/broker/shop/orders}", "status.address.audience"),
    ("addresses: [{url: http://b}, {url: http://b, audience: a}]", "status.addresses[1].audience"),
    (
        "conditions: [{type: EventPoliciesReady, status: 'True', reason: DefaultAuthorizationMode}]",
        "status.conditions[0].reason",
    ),
]


@pytest.mark.spec("PO-11")
@pytest.mark.parametrize(("status", "place"), STATUS)
def test_a_broker_whose_senders_need_a_token_in_the_cluster_is_not_open(
    status: str, place: str, tmp_path: Path
) -> None:
    printed = _broker() + f"status: {{{status}}}\n"
    (found,) = _faults(tmp_path, _ingress("shop.orders"), printed)
    assert found.startswith(f"{place}: its senders need a token there")
    _load(tmp_path, _ingress("shop.orders"), printed, POLICY + f"{{{TO}, from: [{{sub: x}}]}}")
    _load(tmp_path, _ingress("shop.orders", how=OIDC), printed, FEATURES + "{authentication-oidc: enabled}")
    _load(tmp_path, _ingress("shop.orders") + "policies: {p: {brokers: all, from: [x]}}\n", printed)
    disabled = (
        "conditions: [{type: EventPoliciesReady, status: 'True', reason: OIDCDisabled}], address: {url: http://b}"
    )
    _load(tmp_path, _ingress("shop.orders"), _broker() + f"status: {{{disabled}}}\n")


# -- config-features ------------------------------------------------------------------------------------------------

OIDC = "{oidc: {issuer: 'https://k.example', audience: a}}"


@pytest.mark.spec("PO-12")
@pytest.mark.parametrize(
    ("mode", "subjects"),
    [
        ("", ["system:serviceaccount:shop:*"]),  # Knative's default
        (", default-authorization-mode: allow-same-namespace", ["system:serviceaccount:shop:*"]),
        (", default-authorization-mode: deny-all", []),
        (", default-authorization-mode: allow-all", ["*"]),
    ],
)
def test_the_default_mode_holds_for_brokers_without_a_policy(mode: str, subjects: list[str], tmp_path: Path) -> None:
    own = _ingress("shop.orders", "shop.other", "shop.third", how=OIDC)
    own += "policies: {mine: {brokers: [shop.third], from: [x]}}"
    documents = own, _broker(), _broker("other"), POLICY + f"{{{TO}, from: [{{sub: x}}]}}"
    found = _policies(_load(tmp_path, *documents, f"{FEATURES}{{authentication-oidc: enabled{mode}}}"))
    assert set(found) == {"mine", "shop.p", "default-authorization-mode/shop.other"}
    made = found["default-authorization-mode/shop.other"]
    assert (made.brokers, made.subjects, made.authenticator) == (["shop.other"], subjects, "oidc")
    assert made.origin is not None
    assert made.origin.kind == "ConfigMap"
    assert found["shop.p"].authenticator == "oidc"


@pytest.mark.spec("PO-12")
def test_oidc_is_needed_where_config_features_says_so(tmp_path: Path) -> None:
    for own in ("", _ingress("shop.orders")):
        (found,) = _faults(tmp_path, own or "bridges: {}", _broker(), FEATURES + "{authentication-oidc: enabled}")
        assert found.startswith("brokers.shop.orders.ingress[0]: no sender can fulfil a policy")


@pytest.mark.spec("PO-11")
@pytest.mark.parametrize(
    ("data", "fault"),
    [
        ("{transport-encryption: strict}", "data.transport-encryption"),
        ("{transport-encryption: enabled}", "data.transport-encryption"),
        ("{authentication-oidc: maybe}", "data.authentication-oidc"),
        ("{default-authorization-mode: deny-some}", "data.default-authorization-mode"),
        ("{default-authorization-mode: deny-all}", "data.default-authorization-mode"),
        ("{default-authorization-mode: deny-all, authentication-oidc: disabled}", "data.default-authorization-mode"),
        ("{default-authorization-mode: allow-same-namespace}", "data.default-authorization-mode"),
    ],
)
def test_features_that_are_not_kept_are_faults(data: str, fault: str, tmp_path: Path) -> None:
    (found,) = _faults(tmp_path, _broker(), FEATURES + data)
    assert found.startswith(f"{fault}: ")


@pytest.mark.spec("PO-12")
def test_the_features_that_knative_ships_restrict_nobody(tmp_path: Path) -> None:
    # config/core/configmaps/features.yaml of Knative Eventing, commit 8cf4c4b6
    shipped = "{authentication-oidc: disabled, default-authorization-mode: allow-same-namespace}"
    loaded = _load(tmp_path, _broker(), FEATURES + shipped)
    assert not _policies(loaded)
    assert [w.path for w in loaded.warnings] == ["data.default-authorization-mode"]
    (found,) = _faults(tmp_path, _broker(), FEATURES + shipped, (FEATURES + shipped).replace("features", "more"))
    assert found.startswith("kind: another document")


# -- what is only similar, or elsewhere -------------------------------------------------------------------------------


@pytest.mark.spec("PO-12")
@pytest.mark.parametrize(
    ("mine", "wanted"),
    [
        ("[shop.orders, '${OTHER}']", set()),
        ("[shop.orders]", {"shop.other"}),
        ("all", set()),
        ("'${EACH}'", set()),
        ("[all]", {"shop.orders", "shop.other"}),  # a broker of this name
    ],
)
def test_own_policies_that_replace_the_default_mode(mine: str, wanted: set[str], tmp_path: Path) -> None:
    own = _ingress("shop.orders", "shop.other", "all", how=OIDC) + f"policies: {{mine: {{brokers: {mine}, from: [x]}}}}"
    features = FEATURES + "{authentication-oidc: enabled, default-authorization-mode: deny-all}"
    file = tmp_path / "any.yaml"
    file.write_text("\n---\n".join([own, _broker(), _broker("other"), features]))
    loaded = load_all([file], REGISTRY, {"OTHER": "shop.other", "EACH": "all"})
    made = {name.removeprefix("default-authorization-mode/") for name in _policies(loaded)} - {"mine"}
    assert made - {"all"} == wanted
    assert ("all" in made) == (mine[:1] == "[" and mine != "[all]")


DENY = "{authentication-oidc: enabled, default-authorization-mode: deny-all}"
FEATURES_ELSEWHERE = [
    f"apiVersion: v1\nkind: List\nitems: [{{apiVersion: v1, kind: ConfigMap, data: {DENY}}}]",
    f"apiVersion: v1\nkind: ConfigMapList\nitems: [{{apiVersion: v1, kind: ConfigMap, data: {DENY}}}]",
    f"apiVersion: v1\nkind: ConfigMapList\nitems: [{{metadata: {{name: config-features}}, data: {DENY}}}]",
    *(
        "apiVersion: operator.knative.dev/v1beta1\nkind: KnativeEventing\nmetadata: {name: knative-eventing}\n"
        f"spec: {{config: {{{name}: {DENY}}}}}"
        for name in ("features", "config-features")
    ),
]


@pytest.mark.spec("PO-12")
@pytest.mark.parametrize("document", FEATURES_ELSEWHERE, ids=range(len(FEATURES_ELSEWHERE)))
def test_features_hold_wherever_they_are_written(document: str, tmp_path: Path) -> None:
    (made,) = _policies(_load(tmp_path, _ingress("shop.orders", how=OIDC), _broker(), document)).values()
    assert (made.brokers, made.subjects, made.authenticator) == (["shop.orders"], [], "oidc")


OPERATOR = (
    "apiVersion: operator.knative.dev/v1beta1\nkind: KnativeEventing\nmetadata: {name: k}\nspec: {config: CONFIG}"
)


@pytest.mark.spec("PO-11")
@pytest.mark.parametrize(
    ("document", "fault"),
    [
        (FEATURES + "{authentication_oidc: enabled}", "data.authentication_oidc"),
        (FEATURES + "{Authentication-OIDC: enabled}", "data.Authentication-OIDC"),
        (FEATURES + "{authentication-odic: enabled}", "data.authentication-odic"),
        (FEATURES + "{' authentication-oidc': enabled}", "data. authentication-oidc"),
        (FEATURES + "{default-authorisation-mode: deny-all}", "data.default-authorisation-mode"),
        ((FEATURES + DENY).replace("ConfigMap", "Configmap"), "kind"),
        ((FEATURES + DENY).replace("\ndata:", "\nData:"), "Data"),
        ((FEATURES + DENY).replace("\ndata:", "\nstringData:"), "stringData"),
        (FEATURES + "[]", "data"),
        (OPERATOR.replace("CONFIG", f"{{feature: {DENY}}}"), "spec.config.feature"),
        (OPERATOR.replace("CONFIG", "{features: {authentication-oidc: maybe}}"), "spec.config.features.authentic"),
        (OPERATOR.replace("CONFIG", "{features: []}"), "spec.config.features"),
        (OPERATOR.replace("CONFIG", "{features: {transport-encryption: strict}}"), "spec.config.features.transport-"),
    ],
    ids=range(13),
)
def test_what_seems_to_be_a_feature_of_senders_is_a_fault(document: str, fault: str, tmp_path: Path) -> None:
    (found, *_) = _faults(tmp_path, _ingress("shop.orders", how=OIDC), _broker(), document)
    assert found.startswith(fault), found


@pytest.mark.spec("PO-11")
@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("eventing.knative.dev/v1alpha1", "Eventpolicy"),
        ("eventing.knative.dev/v1alpha1", "EventPolicies"),
        ("eventing.knative.dev/v1alpha1", "EventPolcy"),
        ("eventing.knative.dev/v1alpha1", "Event-Policy"),
        ("eventing.knative.dev/v1alpha2", "EventPolicy"),
        ("eventing.knative.dev", "EventPolicy"),
        ("evening.knative.dev/v1alpha1", "EventPolicy"),
        ("Eventing.knative.dev/v1alpha1", "EventPolicy"),
        ("security.istio.io/v1", "AuthorizationPolicies"),
        ("security.istio.io/v1", "PeerAuthentications"),
        ("security.istio.io/v1", "RequestAuthenticaton"),
        ("cilium.io/v2", "CiliumNetworkPolicy"),
        ("policy.linkerd.io/v1beta1", "ServerAuthorization"),
        ("v1", "EventPolicyList"),
    ],
)
def test_a_kind_that_seems_to_restrict_access_is_a_fault(version: str, kind: str, tmp_path: Path) -> None:
    name = "metadata: {name: p, namespace: shop}"
    items = "\nitems: [{metadata: {name: p}}]" if kind.endswith("List") else ""
    found = _faults(tmp_path, _ingress("shop.orders"), _broker(), f"apiVersion: {version}\nkind: {kind}\n{name}{items}")
    assert "restricts access, and the gateway would not enforce it" in found[0]


@pytest.mark.spec("PO-10")
def test_other_matters_stay_warnings(tmp_path: Path) -> None:
    others = ["policy/v1beta1 PodSecurityPolicy", "v1 ConfigMap", "v1 Secret", "apps/v1 Deployment", "v1 PodList"]
    documents = [
        f"apiVersion: {o.split()[0]}\nkind: {o.split()[1]}\nmetadata: {{name: x}}\ndata: {{a: b}}" for o in others
    ]
    documents.append("apiVersion: v1\nkind: PodList\nitems: [{metadata: {name: x}}]")
    loaded = _load(tmp_path, _ingress("shop.orders"), _broker(), *documents)
    assert len([w for w in loaded.warnings if "is ignored" in w.message]) == len(documents)


@pytest.mark.spec("PO-11")
@pytest.mark.parametrize("value", ["anonymous", "[one, anonymous]", "'${WHO:-anonymous}'"])
def test_an_object_is_not_everyone_without_credentials(value: str, tmp_path: Path) -> None:
    own = _ingress("shop.orders") + f"subjects: {{Thing/a: {value}}}\n"
    spec = "{from: [{ref: {apiVersion: v1, kind: Thing, name: a}}]}"
    found = _faults(tmp_path, own, _broker(), POLICY + spec)
    assert any(f.startswith("spec.from[0].ref.name: `subjects` maps `Thing/a` to `anonymous`") for f in found)


@pytest.mark.spec("PO-11")
@pytest.mark.parametrize(
    "filters",
    ["{}", "[{}]", "[null]", "[{exact: {}}]", "[{exact: {type: a}, prefix: {type: b}}]", "[{all: []}]", "[{any: []}]",
     "[{not: []}]", "[{not: {}}]", "[{exact: {type: ''}}]", "[{cesql: ''}]", "[{exact: {type: null}}]", "exact"],
)  # fmt: skip
def test_filters_that_say_nothing_are_faults(filters: str, tmp_path: Path) -> None:
    policy = POLICY + f"{{from: [{{sub: a}}], filters: {filters}}}"
    (found, *_) = _faults(tmp_path, _ingress("shop.orders"), _broker(), policy)
    assert found.startswith("spec.filters"), found
