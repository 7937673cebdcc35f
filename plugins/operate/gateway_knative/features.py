"""What Knative's ConfigMap `config-features`, or `KnativeEventing` of its operator, says about senders (docs: "Knative
Eventing Authorization" and "Sender Identity for Knative Eventing").

With `authentication-oidc: enabled` every sender must prove who it is by OIDC, and `default-authorization-mode` says who
may send to a broker without an EventPolicy. Both become policies. What can't become one is a fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from gateway_core.contract.config_extension import DocumentEntry, DocumentOrigin
from gateway_core.contract.config_node import Node
from gateway_core.contract.faults import near

from .part import Part
from .restrictions import REMEDY

OIDC = "authentication-oidc"
MODE = "default-authorization-mode"
TLS = "transport-encryption"
NAME = "config-features"
CONFIG_MAP = "ConfigMap"
OPERATOR = "KnativeEventing"
_KEYS = (OIDC, MODE, TLS)
_NOTHING = Node(None, "", 0)
_SAME_NAMESPACE = "allow-same-namespace"
_MODES = ("allow-all", "deny-all", _SAME_NAMESPACE)
_ON_OFF = ("disabled", "enabled")


@dataclass(frozen=True)
class Features:
    """The features that restrict senders: whether they need OIDC, and who may send to brokers without a policy. `part`
    is the document, `data` the part of it with the features, `key` the one of them that says so."""

    part: Part | None = None
    data: Part | None = None
    key: str = MODE
    oidc: bool = False
    mode: str = "allow-all"

    def entries(self, brokers: Mapping[str, str]) -> Iterator[DocumentEntry]:
        """The policies of brokers that no other policy is about. `brokers` has their namespaces by their names."""
        if not self.oidc or self.part is None or self.data is None:
            return
        metadata, data = self.part.part("metadata"), self.data
        origin = DocumentOrigin(
            self.part.text("kind") or "ConfigMap",
            (metadata.text("name") if metadata else None) or NAME,
            (metadata.text("namespace") if metadata else None) or "",
            self.part.node.file,
            data.line(self.key),
            data.at(self.key),
        )
        for broker, namespace in brokers.items():
            subjects = {
                "allow-all": ["*"],
                "deny-all": [],
                _SAME_NAMESPACE: [f"system:serviceaccount:{namespace}:*"],
            }[self.mode]
            keys = {
                "brokers": data.made(self.key, [data.made(self.key, broker)]),
                "from": data.made(self.key, [data.made(self.key, subject) for subject in subjects]),
                "authenticator": data.made(self.key, "oidc"),
            }
            yield DocumentEntry("policies", f"{MODE}/{broker}", origin, keys)


def features_of(part: Part, kind: str) -> Features | None:
    """What a document says about senders: a ConfigMap, or the operator's `KnativeEventing`. None if it says nothing.
    What can't be kept becomes a fault, and so does what is in a document of another kind, or under a name that is only
    similar."""
    data = _operators(part) if kind == OPERATOR else _data(part)
    if data is None:
        return None
    alike = [key for key in data.node.value if key not in _KEYS and _is_alike(key)]
    for key in alike:
        data.fault(key, f"unknown feature `{key}`", near(key.strip().lower(), _KEYS) or REMEDY)
    if not any(data.has(key) for key in _KEYS):
        return Features(part, data) if alike else None
    if kind not in (CONFIG_MAP, OPERATOR):
        part.fault("kind", f"`{kind}` is no kind that has features of senders", f"write `kind: {CONFIG_MAP}`")
    oidc = _value(data, OIDC, _ON_OFF)
    mode = _value(data, MODE, _MODES)
    if _value(data, TLS, ("disabled", "permissive", "strict")) == "strict":
        data.fault(TLS, f"`{TLS}: strict` would not be enforced here", "give each ingress `tls`, then remove it")
    if oidc == "enabled":
        return Features(part, data, MODE if data.has(MODE) else OIDC, True, mode or _SAME_NAMESPACE)
    if mode == "deny-all" or (mode == _SAME_NAMESPACE and oidc is None):
        data.fault(
            MODE,
            f"`{MODE}: {mode}` has no effect in Knative without `{OIDC}: enabled`",
            f"add that, or remove `{MODE}`",
        )
    elif mode == _SAME_NAMESPACE:
        data.warn(MODE, f"it has no effect while `{OIDC}` is disabled, as in Knative")
    return Features(part, data)


def _data(part: Part) -> Part | None:
    """The data of a ConfigMap. Of the one that is about features, nothing else may be meant to be its data."""
    node = part.node.value.get("data")
    metadata = part.part("metadata") if isinstance(part.node.value.get("metadata", _NOTHING).value, dict) else None
    if metadata is not None and metadata.text("name") == NAME:
        part.only(("apiVersion", "kind", "metadata", "data", "immutable"))
        return part.part("data")
    return part.part("data") if node is not None and isinstance(node.value, dict) else None


def _operators(part: Part) -> Part | None:
    """The features in `spec.config`, where the operator accepts the ConfigMap's name with and without its prefix."""
    spec = part.part("spec")
    config = spec.part("config") if spec is not None else None
    if config is None:
        return None
    names = [name for name in (NAME, NAME.removeprefix("config-")) if config.has(name)]
    for key in config.node.value:
        if key not in names and get_close_matches(key.lower(), [NAME, "features"], 1, 0.8):
            config.fault(key, f"unknown ConfigMap `{key}`", f"write `{NAME}`")
    if len(names) > 1:
        config.fault(names[1], f"`{names[0]}` and `{names[1]}` exclude each other", "keep one of them")
    return config.part(names[0]) if names else None


def _is_alike(key: str) -> bool:
    word = key.strip().lower().replace("_", "-")
    return word in _KEYS or bool(get_close_matches(word, _KEYS, 1, 0.8))


def _value(data: Part, key: str, known: tuple[str, ...]) -> str | None:
    """The value of a key, None if it is absent or at fault."""
    if not data.has(key):
        return None
    node: Node = data.node.value[key]
    value = str(node.value).lower()
    if value not in known:
        data.fault(key, f"expected {' or '.join(f'`{k}`' for k in known)}, found `{node.value}`", REMEDY)
        return None
    return value
