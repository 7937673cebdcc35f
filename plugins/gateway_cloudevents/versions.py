"""The versions of CloudEvents as data: which attributes each has, which are required, what their values must be."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gateway_core.errors import Refused

from . import values
from .memory import Memory

Tests = tuple[tuple[str, values.Check], ...]
"""Attributes and what to test their values with: all that depends on the names that an event has."""


class Version:
    """One version of the specification.

    `name`          its word in `specversion_name`.
    `document`      what refusals cite.
    `required`      attributes that every event has.
    `checks`        attributes and the check that their text must pass. None of the named attributes may be empty.
    `content_type`  the attribute that carries the media type of the data.
    `base64_member` the JSON member for binary data ("data_base64"), "" where the version has none.
    `encoding`      the attribute that says that JSON data is Base64 ("datacontentencoding"), "" where there is none.
    `maps`          whether an extension's value may be a JSON object.
    """

    def __init__(
        self,
        name: str,
        document: str,
        required: tuple[str, ...],
        optional: tuple[str, ...],
        checks: Mapping[str, values.Check],
        *,
        specversion: str = "specversion",
        content_type: str = "datacontenttype",
        base64_member: str = "",
        encoding: str = "",
        maps: bool = False,
        names: str = "[a-z0-9]+",
    ) -> None:
        self.name = name
        self.document = document
        self.specversion = specversion
        self.content_type = content_type
        self.base64_member = base64_member
        self.encoding = encoding
        self.maps = maps
        self._required = required
        self._defined = frozenset(required + optional)
        self._names = re.compile(names)
        # `time` differs from event to event: remembering it would only push others out
        self._checks: dict[str, values.Check] = {
            attribute: check if check is values.check_time else Memory(check).__getitem__
            for attribute, check in checks.items()
        }
        self.tests: Memory[tuple[str, ...], Tests] = Memory(self._tests_of)

    def check(self, attributes: Mapping[str, Any]) -> None:
        """Raises `Refused`, naming attribute and rule, where the attributes are not those of a valid event. Values
        have been checked for forbidden characters before; values of attributes that are defined here are text."""
        self.check_values(attributes, self.tests[tuple(attributes)])

    def check_values(self, attributes: Mapping[str, Any], tests: Tests) -> None:
        """`check` for attributes whose names are known: `tests` are those of their names."""
        if "" in attributes.values():
            self._refuse_empty(attributes)
        for name, test in tests:
            if fault := test(attributes[name]):
                raise self.fault(name, f"{name} {_short(attributes[name])} {fault}", "Context Attributes")

    def is_defined(self, name: str) -> bool:
        """Whether the specification itself names the attribute: its value is then text."""
        return name in self._defined

    def fault(self, attribute: str, detail: str, section: str) -> Refused:
        return Refused(detail, attribute=attribute, rule=f"{self.document}, {section}")

    def _tests_of(self, names: tuple[str, ...]) -> Tests:
        for name in names:
            if not self._names.fullmatch(name) or name == "data":
                detail = f"{_short(name)} is not an attribute name: a-z and 0-9 only, and not data"
                raise self.fault(name[:100], detail, "Naming Conventions")
        for name in self._required:
            if name not in names:
                raise self.fault(name, f"required attribute {name} is missing", "Required Attributes")
        return tuple((name, self._checks[name]) for name in names if name in self._checks)

    def _refuse_empty(self, attributes: Mapping[str, Any]) -> None:
        for name, value in attributes.items():
            if value == "" and name in self._required:
                raise self.fault(name, f"required attribute {name} is empty", "Required Attributes")
            if value == "" and name in self._defined:
                raise self.fault(name, f"attribute {name} is there but empty", "Optional Attributes")


def _short(text: str) -> str:
    return repr(text if len(text) <= 100 else f"{text[:100]}…")


V1_0 = Version(
    "1.0",
    "CloudEvents 1.0.2 spec.md",
    required=("specversion", "id", "source", "type"),
    optional=("datacontenttype", "dataschema", "subject", "time"),
    checks={
        "source": values.check_uri_reference,
        "datacontenttype": values.check_media_type,
        "dataschema": values.check_uri,
        "time": values.check_time,
    },
    base64_member="data_base64",
)

V0_3 = Version(
    "0.3",
    "CloudEvents 0.3 spec.md",
    required=("specversion", "id", "source", "type"),
    optional=("datacontentencoding", "datacontenttype", "schemaurl", "subject", "time"),
    checks={
        "source": values.check_uri_reference,
        "datacontenttype": values.check_media_type,
        "schemaurl": values.check_uri_reference,
        "time": values.check_time,
    },
    encoding="datacontentencoding",
    maps=True,
)

VERSIONS = {v.name: v for v in (V1_0, V0_3)}


def version_of(attributes: Mapping[str, Any]) -> Version:
    """The version that an event says it has; raises `Refused` where it says none, or one that is not known."""
    word = attributes.get("specversion")
    if type(word) is str and (version := VERSIONS.get(word)):
        return version
    if word is None:
        raise V1_0.fault("specversion", "required attribute specversion is missing", "Required Attributes")
    known = ", ".join(VERSIONS)
    raise V1_0.fault("specversion", f"unknown specversion {_short(str(word))}; known are {known}", "specversion")
