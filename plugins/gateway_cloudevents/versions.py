"""The versions of CloudEvents as data: which attributes each has, which are required, what their values must be."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gateway_core.errors import Refused

from . import values
from .memory import Memory


class Version:
    """One version of the specification.

    `name`          its word in `specversion_name`.
    `document`      what refusals cite.
    `required`      attributes that every event has.
    `checks`        attributes and the check that their text must pass. None of the named attributes may be empty.
    `content_type`  the attribute that carries the media type of the data.
    `base64_member` the JSON member for binary data ("data_base64"), "" where the version has none.
    `encoding`      the attribute that says that JSON data is Base64 ("datacontentencoding"), "" where there is none.
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
        names: str = "[a-z0-9]+",
    ) -> None:
        self.name = name
        self.document = document
        self.specversion = specversion
        self.content_type = content_type
        self.base64_member = base64_member
        self.encoding = encoding
        self._order = required
        self._required = frozenset(required)
        self._defined = frozenset(required + optional)
        self._names = re.compile(names)
        # `time` differs from event to event: remembering it would only push others out
        self._repeating = tuple(
            (attribute, Memory(_once(check))) for attribute, check in checks.items() if check is not values.check_time
        )
        self._times = tuple(attribute for attribute, check in checks.items() if check is values.check_time)
        self.good_names: Memory[str, str] = Memory(self._check_name)

    def check(self, attributes: Mapping[str, Any]) -> None:
        """Raises `Refused`, naming attribute and rule, where the attributes are not those of a valid event. Values
        have been checked for forbidden characters before; values of attributes that are defined here are text."""
        if not self._required <= attributes.keys() or "" in attributes.values():
            self._find_empty(attributes)
        get = attributes.get
        for name, memory in self._repeating:
            value = get(name)
            if value is not None and (fault := memory[value]):
                raise self.fault(name, f"{name} {value!r} {fault}", "Context Attributes")
        for name in self._times:
            value = get(name)
            if value is not None and (fault := values.check_time(value)):
                raise self.fault(name, f"{name} {value!r} {fault}", "Context Attributes")

    def is_defined(self, name: str) -> bool:
        """Whether the specification itself names the attribute: its value is then text."""
        return name in self._defined

    def fault(self, attribute: str, detail: str, section: str) -> Refused:
        return Refused(detail, attribute=attribute, rule=f"{self.document}, {section}")

    def _find_empty(self, attributes: Mapping[str, Any]) -> None:
        for name in self._order:
            if name not in attributes:
                raise self.fault(name, f"required attribute {name} is missing", "Required Attributes")
            if attributes[name] == "":
                raise self.fault(name, f"required attribute {name} is empty", "Required Attributes")
        for name, value in attributes.items():
            if value == "" and name in self._defined:
                raise self.fault(name, f"attribute {name} is there but empty", "Optional Attributes")

    def _check_name(self, name: str) -> str:
        if not self._names.fullmatch(name):
            detail = f"attribute name {name[:100]!r} has characters other than a-z and 0-9"
            raise self.fault(name[:100], detail, "Naming Conventions")
        return name


def _once(check: values.Check) -> values.Check:
    return lambda text: check(text)


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
    raise V1_0.fault("specversion", f"unknown specversion {str(word)[:100]!r}; known are {known}", "specversion")
