"""Manifests that restrict access. The gateway enforces none of them. Ignoring one would leave open what its author
meant to close, so each is a fault."""

from __future__ import annotations

from .part import Part

GROUP = "eventing.knative.dev"
_KINDS = {
    "EventPolicy": GROUP,
    "AuthorizationPolicy": "security.istio.io",
    "PeerAuthentication": "security.istio.io",
    "RequestAuthentication": "security.istio.io",
    "NetworkPolicy": "networking.k8s.io",
}
_CLOSED = {
    "authentication-oidc": ("disabled",),
    "default-authorization-mode": ("allow-all",),
    "transport-encryption": ("disabled", "permissive"),
}
"""Keys of Knative's ConfigMap `config-features` that restrict senders, and the values without a restriction."""
_REMEDY = "enforce it in front of the gateway (a proxy, the network; TLS client certificates at the listener)"


def restricts(part: Part, version: str, kind: str) -> bool:
    """Whether a document restricts access; if so, records a fault."""
    group = _KINDS.get(kind.removesuffix("List"))
    if group is not None and version.startswith(f"{group}/"):
        text = f"`{kind}` of `{version}` restricts access, and the gateway would not enforce it"
        part.fault("kind", text, f"{_REMEDY}, then take it out of the config")
        return True
    if kind == "ConfigMap" and (data := part.part("data")) is not None:
        found = [_features(data, key) for key in _CLOSED if data.has(key)]  # each of them gets a fault
        return any(found)
    return False


def check_policies(broker: Part) -> None:
    """The `status` of a Broker printed from a cluster lists the policies in force there."""
    status = broker.part("status")
    if status is not None and status.has("policies") and status.node.value["policies"].value:
        text = "policies restrict who may send to this broker, and the gateway would not enforce them"
        status.fault("policies", text, f"{_REMEDY}, then take `policies` out")


def _features(data: Part, key: str) -> bool:
    value = data.node.value[key].value
    if str(value).lower() in _CLOSED[key]:
        return False
    data.fault(key, f"`{key}: {value}` restricts senders, and would not be enforced here", f"{_REMEDY}, then remove it")
    return True
