"""What Knative's ConfigMap `config-features` says about senders (docs: "Knative Eventing Authorization" and "Sender
Identity for Knative Eventing").

With `authentication-oidc: enabled` every sender must prove who it is by OIDC, and `default-authorization-mode` says who
may send to a broker without an EventPolicy. Both become policies. What can't become one is a fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gateway_core.contract.config_extension import DocumentEntry, DocumentOrigin
from gateway_core.contract.config_node import Node

from .part import Part
from .restrictions import REMEDY

OIDC = "authentication-oidc"
MODE = "default-authorization-mode"
TLS = "transport-encryption"
_SAME_NAMESPACE = "allow-same-namespace"
_MODES = ("allow-all", "deny-all", _SAME_NAMESPACE)
_ON_OFF = ("disabled", "enabled")


@dataclass(frozen=True)
class Features:
    """The features that restrict senders: whether they need OIDC, and who may send to brokers without a policy. `part`
    is the ConfigMap, `key` the one in its data that says so."""

    part: Part | None = None
    key: str = MODE
    oidc: bool = False
    mode: str = "allow-all"

    def entries(self, brokers: Mapping[str, str]) -> Iterator[DocumentEntry]:
        """The policies of brokers that no other policy is about. `brokers` has their namespaces by their names."""
        if not self.oidc or self.part is None or (data := self.part.part("data")) is None:
            return
        metadata = self.part.part("metadata")
        origin = DocumentOrigin(
            "ConfigMap",
            (metadata.text("name") if metadata else None) or "config-features",
            (metadata.text("namespace") if metadata else None) or "",
            *(self.part.node.file, data.line(self.key), data.at(self.key)),
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


def features_of(part: Part) -> Features | None:
    """What a ConfigMap says about senders, None if it says nothing. What can't be kept becomes a fault."""
    data = part.part("data")
    if data is None or not any(data.has(key) for key in (OIDC, MODE, TLS)):
        return None
    oidc = _value(data, OIDC, _ON_OFF)
    mode = _value(data, MODE, _MODES)
    if _value(data, TLS, ("disabled", "permissive", "strict")) == "strict":
        data.fault(TLS, f"`{TLS}: strict` would not be enforced here", "give each ingress `tls`, then remove it")
    if oidc == "enabled":
        return Features(part, MODE if data.has(MODE) else OIDC, True, mode or _SAME_NAMESPACE)
    if mode == "deny-all" or (mode == _SAME_NAMESPACE and oidc is None):
        data.fault(
            MODE,
            f"`{MODE}: {mode}` has no effect in Knative without `{OIDC}: enabled`",
            f"add that, or remove `{MODE}`",
        )
    elif mode == _SAME_NAMESPACE:
        data.warn(MODE, f"it has no effect while `{OIDC}` is disabled, as in Knative")
    return Features(part)


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
