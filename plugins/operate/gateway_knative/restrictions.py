"""Manifests that restrict access and that the gateway does not enforce. Ignoring one would leave open what its author
meant to close, so each is a fault."""

from __future__ import annotations

from difflib import get_close_matches

from .part import Part

GROUP = "eventing.knative.dev"
POLICY_VERSION = f"{GROUP}/v1alpha1"
REMEDY = "enforce it in front of the gateway (a proxy, the network; TLS client certificates at the listener)"
_POLICY = "eventpolicy"
_KINDS = (_POLICY, "authorizationpolicy", "peerauthentication", "requestauthentication", "networkpolicy")
_ENDS = ("policy", "authentication", "authorization", "trafficpermission")
"""Of any group: one of a group that nobody knows was meant to close something, too."""
_OTHER_MATTERS = frozenset(
    ("podsecuritypolicy", "validatingadmissionpolicy", "mutatingadmissionpolicy", "imagepolicy", "clusterimagepolicy")
)
"""Policies that are not about who may send."""


def restricts(part: Part, version: str, kind: str) -> bool:
    """Whether a document restricts access in a way that is not enforced here, or seems to be meant to: misspelt, or in
    the plural. If so, records a fault."""
    single = kind.removesuffix("List")
    if version == POLICY_VERSION and single == "EventPolicy":
        return False
    found = _meant(single)
    if not found:
        return False
    text = f"`{kind}` of `{version}` restricts access, and the gateway would not enforce it"
    policy = found == _POLICY
    remedy = f"write `apiVersion: {POLICY_VERSION}` and `kind: EventPolicy`"
    place = "apiVersion" if policy and single == "EventPolicy" else "kind"
    part.fault(place, text, remedy if policy else f"{REMEDY}, then take it out of the config")
    return True


def _meant(kind: str) -> str:
    """The kind that restricts access which this word stands for, "" if it is another matter."""
    word = "".join(c for c in kind.lower() if c.isalnum())
    word = f"{word[:-3]}y" if word.endswith("ies") else word
    if word in _OTHER_MATTERS:
        return ""
    if word.endswith(_ENDS):
        return word
    return next(iter(get_close_matches(word, _KINDS, 1, 0.8)), "")
