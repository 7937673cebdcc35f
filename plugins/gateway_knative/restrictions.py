"""Manifests that restrict access and that the gateway does not enforce. Ignoring one would leave open what its author
meant to close, so each is a fault."""

from __future__ import annotations

from .part import Part

GROUP = "eventing.knative.dev"
POLICY_VERSION = f"{GROUP}/v1alpha1"
REMEDY = "enforce it in front of the gateway (a proxy, the network; TLS client certificates at the listener)"
_POLICY = "eventpolicy"
_KINDS = {_POLICY, "authorizationpolicy", "peerauthentication", "requestauthentication", "networkpolicy"}
"""In lower case, and of any group: one of a group that nobody knows, or misspelt, was meant to close something, too."""


def restricts(part: Part, version: str, kind: str) -> bool:
    """Whether a document restricts access in a way that is not enforced here; if so, records a fault."""
    single = kind.removesuffix("List")
    if single.lower() not in _KINDS or (version == POLICY_VERSION and single == "EventPolicy"):
        return False
    text = f"`{kind}` of `{version}` restricts access, and the gateway would not enforce it"
    policy = single.lower() == _POLICY
    remedy = f"write `apiVersion: {POLICY_VERSION}` and `kind: EventPolicy`"
    place = "apiVersion" if policy and single == "EventPolicy" else "kind"
    part.fault(place, text, remedy if policy else f"{REMEDY}, then take it out of the config")
    return True
