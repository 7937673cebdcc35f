"""Topic names built from an event's attributes."""

from __future__ import annotations

import re

from gateway_options.template import NameRules

TOPIC = NameRules(
    what="topic",
    literal=re.compile(r"[A-Za-z0-9._-]*"),
    forbidden=re.compile(r"[^A-Za-z0-9._-]"),
    most=249,
    rule="a topic name may have letters, digits, `.`, `_`, `-` and `{attribute}`, at most 249 characters",
    invalid=frozenset({".", ".."}),
)
