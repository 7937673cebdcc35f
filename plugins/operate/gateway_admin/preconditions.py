"""The preconditions of a request: `If-Match` and `If-None-Match` (RFC 9110 section 13.1)."""

from __future__ import annotations

from collections.abc import Mapping

from gateway_api.routes import Problem

from .resources import Resources


class Preconditions:
    """Checks them for one trigger. Raises `Problem` if one does not hold."""

    def __init__(self, resources: Resources, name: str, headers: Mapping[str, str]) -> None:
        self._resources = resources
        self._name = name
        self._match = headers.get("if-match")
        self._none = headers.get("if-none-match")

    def __call__(self) -> None:
        tag = self._resources.tag("triggers", self._name)
        if self._match is not None and not _names(self._match, tag):
            raise Problem(412, f"`{self._name}` has changed since, or is not there: its entity tag is {tag or 'none'}")
        if self._none is not None and _names(self._none, tag):
            raise Problem(412, f"`{self._name}` is there: its entity tag is {tag}")


def _names(tags: str, tag: str) -> bool:
    return bool(tag) and (tags.strip() == "*" or tag in [t.strip() for t in tags.split(",")])
