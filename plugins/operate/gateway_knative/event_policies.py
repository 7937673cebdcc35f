"""What an `EventPolicy` (eventing.knative.dev/v1alpha1) means in our vocabulary: an entry of `policies`.

Source: docs, "Knative Eventing Authorization"; pkg/apis/eventing/v1alpha1/eventpolicy_types.go and
eventpolicy_validation.go of Knative Eventing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gateway_core.contract.config_node import Node
from gateway_core.contract.faults import near

from .destinations import object_keys
from .labels import selector
from .part import Notes, Part
from .restrictions import GROUP, POLICY_VERSION
from .spec import Meaning, section_name

ANONYMOUS = "anonymous"
_NO_SUBJECT = "stands for senders without credentials, and is no subject of a token"
_IF_MEANT = "write a policy in the section `policies` if you mean them"
_LONGEST_NAME = 63
_IDENTIFIED = {
    "ApiServerSource": "sources.knative.dev",
    "PingSource": "sources.knative.dev",
    "SinkBinding": "sources.knative.dev",
    "Subscription": "messaging.knative.dev",
    "Trigger": GROUP,
}
"""Kinds for which Knative makes a service account with a name of its own (pkg/auth/serviceaccount.go)."""


@dataclass(frozen=True)
class Targets:
    """The brokers that a policy can be about: those from manifests with their labels, and all others of the config, by
    namespace and name. `subjects` is the section of that name."""

    manifests: Mapping[tuple[str, str], Mapping[str, str]] = field(default_factory=dict)
    others: frozenset[tuple[str, str]] = frozenset()
    subjects: Node | None = None

    def all_in(self, namespace: str) -> list[str]:
        """The names of all brokers of a namespace."""
        return [name for of, name in (*self.manifests, *sorted(self.others)) if of == namespace]

    def known(self, namespace: str, name: str) -> bool:
        """Whether the config has a broker."""
        return (namespace, name) in self.manifests or (namespace, name) in self.others


def namespaced(broker: str) -> tuple[str, str]:
    """Namespace and name of a broker of the config that no manifest describes (`section_name`)."""
    namespace, dot, name = broker.partition(".")
    return (namespace, name) if dot and namespace != "default" else ("default", broker)


def event_policy(top: Part, namespace: str, targets: Targets, oidc: bool) -> tuple[Meaning, list[str]]:
    """Converts an EventPolicy; also returns the names of its brokers. If OIDC is required (`config-features`), only its
    subjects count."""
    spec = top.part("spec")
    if spec is None:
        spec = Part(Node({}, top.node.file, top.line("spec")), top.at("spec"), top.notes)
    spec.only(("to", "from", "filters"))
    meaning = Meaning()
    brokers = list(dict.fromkeys(_brokers(spec, namespace, targets)))
    meaning.keys["brokers"] = spec.made("to", [spec.made("to", section_name(namespace, name)) for name in brokers])
    if not brokers:  # a fault of its own
        meaning.bad.add(("brokers",))
    meaning.keys["from"] = spec.made("from", list(_senders(spec, namespace, targets)))
    if not spec.has("from") or spec.node.value["from"].value == []:
        spec.warn("from", "the policy allows nobody", "add `from: [{sub: …}]`")
    if spec.has("filters"):
        meaning.keys["filters"] = spec.moved("filters")
    if oidc:
        meaning.defaults["authenticator"] = top.made("kind", "oidc")
    return meaning, brokers


# -- spec.to --------------------------------------------------------------------------------------------------------


def _brokers(spec: Part, namespace: str, targets: Targets) -> Iterator[str]:
    """The brokers of the policy's namespace that it is about: all of them if it names none."""
    items = spec.parts("to")
    if not items and not (spec.has("to") and spec.node.value["to"].value):
        if not (found := targets.all_in(namespace)):
            text = f"the policy is about all brokers of the namespace `{namespace}`, and there is none"
            spec.fault("to", text, "name a broker in `to`, or add one")
        yield from found
    for item in items:
        item.only(("ref", "selector"))
        if item.has("ref") == item.has("selector"):
            text = "`ref` and `selector` exclude each other" if item.has("ref") else "`ref` or `selector` is missing"
            item.fault("ref", text, "write one of them")
        elif (ref := item.part("ref")) is not None:
            yield from _named(ref, namespace, targets)
        elif (choice := item.part("selector")) is not None:
            yield from _selected(choice, namespace, targets)


def _named(ref: Part, namespace: str, targets: Targets) -> Iterator[str]:
    ref.only(("apiVersion", "kind", "name"))
    if not _is_broker(ref) or (name := _needed(ref, "name")) is None:
        return
    if not targets.known(namespace, name):
        text = f"there is no broker `{section_name(namespace, name)}`"
        known = targets.all_in(namespace)
        remedy = near(name, known) or f"brokers of this namespace: {', '.join(f'`{n}`' for n in known) or 'none'}"
        ref.fault("name", text, remedy)
        return
    yield name


def _selected(choice: Part, namespace: str, targets: Targets) -> Iterator[str]:
    choice.only(("apiVersion", "kind", "matchLabels", "matchExpressions"))
    if not _is_broker(choice) or (matches := selector(choice)) is None:
        return
    found = [name for (of, name), labels in targets.manifests.items() if of == namespace and matches(labels)]
    if not found:
        text = f"no Broker manifest of the namespace `{namespace}` has these labels"
        choice.fault(
            "matchLabels" if choice.has("matchLabels") else "matchExpressions", text, "label one, or remove it"
        )
    yield from found


def _is_broker(part: Part) -> bool:
    """Whether a reference is to the kind Broker; if not, that is a fault."""
    version, kind = _needed(part, "apiVersion"), _needed(part, "kind")
    if version is None or kind is None:
        return False
    if kind == "Broker" and version.startswith(f"{GROUP}/"):
        return True
    text = f"a policy for `{kind}` of `{version}` would not be enforced here"
    part.fault("kind", text, f"write a policy for a Broker of `{GROUP}/v1`, or take it out of the config")
    return False


def _needed(part: Part, key: str) -> str | None:
    if not part.has(key):
        part.fault(key, f"the key `{key}` is missing", f"add `{key}`")
    return part.text(key)


# -- spec.from ------------------------------------------------------------------------------------------------------


def _senders(spec: Part, namespace: str, targets: Targets) -> Iterator[Node]:
    for item in spec.parts("from"):
        item.only(("ref", "sub"))
        if item.has("ref") == item.has("sub"):
            text = "`ref` and `sub` exclude each other" if item.has("ref") else "`ref` or `sub` is missing"
            item.fault("sub", text, "write one of them")
        elif (ref := item.part("ref")) is not None:
            yield from _subjects_of(ref, namespace, targets.subjects)
        elif (sub := item.text("sub")) is not None:
            if sub == ANONYMOUS:
                item.fault("sub", f"here `{ANONYMOUS}` {_NO_SUBJECT}", _IF_MEANT)
            else:
                yield item.made("sub", sub)


def _subjects_of(ref: Part, namespace: str, table: Node | None) -> Iterator[Node]:
    """The subjects of an object: those that the section `subjects` has, or the one that Knative makes for its kind."""
    ref.only(("apiVersion", "kind", "name", "namespace"))
    version, kind, name = (_needed(ref, key) for key in ("apiVersion", "kind", "name"))
    if version is None or kind is None or name is None:
        return
    namespace = ref.text("namespace") or namespace
    for key in object_keys(kind, namespace, name, version):
        if table is not None and key in table.value:
            node: Node = table.value[key]
            items: Sequence[Node] = node.value if isinstance(node.value, list) else [node]
            for item in items:
                if Part(Node({"sub": item}, item.file, item.line), "", Notes(ref.notes.env)).text("sub") == ANONYMOUS:
                    ref.fault("name", f"`subjects` maps `{key}` to `{ANONYMOUS}`: {_NO_SUBJECT}", _IF_MEANT)
                yield item.copy(item.line, node.written)
            return
    account = service_account(version, kind, name)
    if account is not None:
        yield ref.made("name", f"system:serviceaccount:{namespace}:{account}")
        return
    wanted = f"{kind}/{namespace}/{name}"
    remedy = f"add it to `subjects`: `subjects: {{{wanted}: 'system:serviceaccount:{namespace}:NAME'}}`"
    ref.fault("name", f"nobody knows the subject of `{wanted}`", remedy)


def service_account(version: str, kind: str, name: str) -> str | None:
    """The service account that Knative makes for an object; None if it makes none for this kind, or shortens the name
    (pkg/auth/serviceaccount.go: `GetOIDCServiceAccountNameForResource`)."""
    group = version.partition("/")[0]
    if _IDENTIFIED.get(kind) != group:
        return None
    made = f"{name}-oidc-{group}-{kind}".lower()
    return made if len(made) <= _LONGEST_NAME else None


# -- the status of a Broker -----------------------------------------------------------------------------------------


def check_applied(broker: Part, policies: frozenset[str], closed: bool) -> None:
    """The `status` of a Broker printed from a cluster lists the policies in force there: the config must have them. If
    senders need a token there, the config must be `closed` to others, too: by `config-features`, or by a policy."""
    status = broker.part("status")
    if status is not None and not closed and (where := _needs_tokens(status)) is not None:
        part, key = where
        text = "its senders need a token there (`authentication-oidc: enabled`), and nothing here says who may send"
        part.fault(key, text, "add the ConfigMap `config-features`, or a policy for this broker, or remove its status")
    for applied in status.parts("policies") if status is not None else ():
        name = applied.text("name")
        if name not in policies:
            text = (
                f"the policy `{name or '?'}` is in force there, and the config has no such EventPolicy for this broker"
            )
            remedy = f"add the EventPolicy (`apiVersion: {POLICY_VERSION}`), or remove this line if it is gone"
            applied.fault("name", text, remedy)


def _needs_tokens(status: Part) -> tuple[Part, str] | None:
    """Where a Broker's status says that senders have to prove who they are."""
    address = status.part("address")
    addresses = [*([address] if address is not None else []), *status.parts("addresses")]
    for part in addresses:
        if part.has("audience"):
            return part, "audience"
    for condition in status.parts("conditions"):
        if condition.text("type") == "EventPoliciesReady" and condition.text("reason") == "DefaultAuthorizationMode":
            return condition, "reason"
    return None
