"""Manifests that restrict access and that the gateway does not enforce. Ignoring one would leave open what its author
meant to close, so each is a fault."""

from __future__ import annotations

from .part import Part

GROUP = "eventing.knative.dev"
POLICY_VERSION = f"{GROUP}/v1alpha1"
REMEDY = "enforce it in front of the gateway (a proxy, the network; TLS client certificates at the listener)"
_KINDS = {
    "EventPolicy": GROUP,
    "AuthorizationPolicy": "security.istio.io",
    "PeerAuthentication": "security.istio.io",
    "RequestAuthentication": "security.istio.io",
    "NetworkPolicy": "networking.k8s.io",
}


def restricts(part: Part, version: str, kind: str) -> bool:
    """Whether a document restricts access in a way that is not enforced here; if so, records a fault."""
    group = _KINDS.get(kind.removesuffix("List"))
    if group is None or not version.startswith(f"{group}/") or version == POLICY_VERSION:
        return False
    text = f"`{kind}` of `{version}` restricts access, and the gateway would not enforce it"
    remedy = f"write `apiVersion: {POLICY_VERSION}`" if group == GROUP else f"{REMEDY}, then take it out of the config"
    part.fault("kind" if group != GROUP else "apiVersion", text, remedy)
    return True
