"""The versions of CloudEvents as data: their attributes, which are required, and the rules for values.

Events keep the version and names they came with: `type` in 1.0, 0.3, 0.2 and the draft of 0.1, `eventType` in 0.1 as it
was released. What checks them goes by `gateway_core.contract.normal_form`; so no extension may have a name that
means an attribute there.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from gateway_core.contract.errors import Refused
from gateway_core.contract.normal_form import RELEASED, letters_of, normal_name

from . import values
from .left_out import leave_out
from .memory import Memory

log = logging.getLogger("tidegate.cloudevents")

_MAX_WARNINGS = 100  # senders choose the names: they must not fill the log
_warned_of: set[str] = set()

_TAKEN = (RELEASED.lower(), "eventid", "eventtype", "eventtime", "extensions")

_NOTHING: Mapping[str, Refused] = {}

Tests = tuple[tuple[str, values.Check], ...]
"""Attributes and the checks for their values: everything that depends on an event's attribute names."""


class Version:
    """One version of the specification, in one spelling. `name` its value of the attribute `specversion`. `document`
    the document that errors cite.
    `required`      attributes that every event has.
    `checks`        attributes and the check that their text must pass. None of the named attributes may be empty.
    `content_type`  the attribute that carries the media type of the data.
    `base64_member` the JSON member for binary data ("data_base64"), "" where the version has none.
    `encoding`      the attribute that says that JSON data is Base64 ("datacontentencoding"), "" where there is none.
                    Where both are "", JSON has text or Base64 as the media type says, and data may be any JSON value.
    `maps`          whether an extension's value may be a JSON object.
    `json_headers`  whether the values of attribute headers are JSON (HTTP bindings 0.1 and 0.2, section 3.1.3.2).
    `extensions`    the attribute that has the extensions, as a JSON object; "" where they stand among the others.
    `names`         what attribute names look like, and `naming` says so.
    `warn_above`    longer names are warned of.
    `taken`         names that no extension may have, since an attribute of another version has them: of one that this
                    version has under another name, or which tells the version. Two readers of one event could see two
                    types or two senders otherwise. 1.0 lets extensions have any other name.
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
        json_headers: bool = False,
        extensions: str = "",
        names: str = "[a-z][a-z0-9]*",
        naming: str = "a-z and 0-9 only, first a letter",
        warn_above: int = 20,
        taken: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.document = document
        self.specversion = specversion
        self.content_type = content_type
        self.base64_member = base64_member
        self.encoding = encoding
        self.maps = maps
        self.json_headers = json_headers
        self.extensions = extensions
        self.base64_by_type = not base64_member and not encoding
        self._naming = naming
        self._warn_above = warn_above
        self._taken = frozenset(taken)
        self._required = required
        self._defined = frozenset(required + optional)
        self._needed = frozenset((*required, content_type, encoding, extensions))
        self._names = re.compile(names)
        # `time` differs from event to event: caching it would only evict others
        self._checks: dict[str, values.Check] = {
            attribute: check if check is values.check_time else Memory(check).__getitem__
            for attribute, check in checks.items()
        }
        self.tests: Memory[tuple[str, ...], Tests] = Memory(self._tests_of)

    def settle(self, attributes: dict[str, Any], unfit: Mapping[str, Refused] = _NOTHING) -> None:
        """Raises `Refused` with attribute and rule unless the attributes are those of a valid event. Optional ones with
        an invalid value are left out (`left_out`) instead, but names are checked before, so that no value hides a name
        which means an attribute or another extension. `unfit` are attributes that the caller left out, for a value that
        none may have, with their faults. Values of attributes defined by the specification are text."""
        if unfit:
            self._tests_of((*attributes, *unfit))  # for the names
        tests = self.tests[tuple(attributes)]
        if self.extensions and (inside := attributes.get(self.extensions)):
            self._check_inside(attributes, unfit, inside)
        if unfit:
            for fault in unfit.values():
                leave_out(fault)
        while True:
            try:
                self.check_values(attributes, tests)
            except Refused as e:
                if e.attribute not in attributes or not self.spares(e.attribute):
                    raise
                del attributes[e.attribute]
                leave_out(e)
                tests = self.tests[tuple(attributes)]
            else:
                return

    def spares(self, name: str) -> bool:
        """Whether an event is worth having without this attribute: it is optional, has a valid name, and does not say
        how to read others or the data."""
        return name not in self._needed and name != "data" and self._names.fullmatch(name) is not None

    def check_values(self, attributes: Mapping[str, Any], tests: Tests) -> None:
        """Raises `Refused` for an invalid value. `tests` are those for the names, which were checked before."""
        if not all(attributes.values()):  # one may also be false or 0
            self._refuse_empty(attributes)
        for name, test in tests:
            if fault := test(attributes[name]):
                raise self.fault(name, f"{name} {_short(attributes[name])} {fault}", "Context Attributes")

    def is_defined(self, name: str) -> bool:
        """Whether the specification defines the attribute; then its value is text."""
        return name in self._defined

    def fault(self, attribute: str, detail: str, section: str) -> Refused:
        return Refused(detail, attribute=attribute, rule=f"{self.document}, {section}")

    def _tests_of(self, names: tuple[str, ...]) -> Tests:
        for name in names:
            if not self._names.fullmatch(name) or name == "data":
                detail = f"{_short(name)} is not an attribute name: {self._naming}, and not data"
                raise self.fault(name[:100], detail, "Naming Conventions")
            if name in self._taken and name not in self._defined:
                raise self._ambiguous(name)
            if len(name) > self._warn_above:
                _warn_of_length(name)
        if self.extensions:
            self._check_normal([name for name in names if name not in self._defined], names)
        for name in self._required:
            if name not in names:
                raise self.fault(name, f"required attribute {name} is missing", "Required Attributes")
        return tuple((name, self._checks[name]) for name in names if name in self._checks)

    def _check_inside(self, attributes: Mapping[str, Any], unfit: Mapping[str, Refused], inside: Any) -> None:
        """Raises `Refused` if an extension, in `extensions`, has the name of an attribute or another extension."""
        beside = [name for name in (*attributes, *unfit) if name != self.extensions]
        self._check_normal([str(name) for name in inside], beside, inside=True)

    def _check_normal(self, extensions: Sequence[str], others: Sequence[str], *, inside: bool = False) -> None:
        """`_check_inside` for these names. `others` have the `extensions` among them unless these are `inside`."""
        known = {normal_name(name) for name in others if inside or name in self._defined}
        for name in extensions:
            normal = normal_name(name)
            if letters_of(name) in self._taken or normal in known:
                raise self._ambiguous(name[:100])
            known.add(normal)

    def _ambiguous(self, name: str) -> Refused:
        detail = (
            f"no extension of version {self.name} may be called {_short(name)}: but for its spelling, an attribute of "
            "this or another version, or another extension, has that name"
        )
        return self.fault(name, detail, "Context Attributes")

    def _refuse_empty(self, attributes: Mapping[str, Any]) -> None:
        for name, value in attributes.items():
            if value == "" and name in self._required:
                raise self.fault(name, f"required attribute {name} is empty", "Required Attributes")
            if value == "" and name in self._defined:
                raise self.fault(name, f"attribute {name} is there but empty", "Optional Attributes")


def _short(text: str) -> str:
    return repr(text if len(text) <= 100 else f"{text[:100]}…")


def _warn_of_length(name: str) -> None:
    """Warns once about a name that is longer than the specification recommends."""
    short = _short(name)
    if short not in _warned_of and len(_warned_of) < _MAX_WARNINGS:
        _warned_of.add(short)
        log.warning("attribute name %s has %d characters; CloudEvents recommends at most 20", short, len(name))


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
    names="[a-z0-9]+",
    naming="a-z and 0-9 only",
    taken=(RELEASED.lower(),),
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
    taken=(*_TAKEN, "contenttype", "dataschema"),
)


def _lower_case(name: str) -> Version:
    """0.2, and the draft of 0.1 with the same names."""
    return Version(
        name,
        f"CloudEvents {name} spec.md",
        required=("specversion", "id", "source", "type"),
        optional=("contenttype", "schemaurl", "time"),
        checks={
            "source": values.check_uri_reference,
            "contenttype": values.check_media_type,
            "schemaurl": values.check_uri,
            "time": values.check_time,
        },
        content_type="contenttype",
        maps=True,
        json_headers=True,
        taken=(*_TAKEN, "datacontenttype", "dataschema"),
    )


V0_2 = _lower_case("0.2")
V0_1 = _lower_case("0.1")

V0_1_CAMEL = Version(
    "0.1",
    "CloudEvents 0.1 spec.md",
    required=("cloudEventsVersion", "eventID", "source", "eventType"),
    optional=("contentType", "eventTime", "eventTypeVersion", "extensions", "schemaURL"),
    checks={
        "source": values.check_uri_reference,
        "contentType": values.check_media_type,
        "schemaURL": values.check_uri_reference,  # its type URI is a URI-reference (section Type System)
        "eventTime": values.check_time,
    },
    specversion="cloudEventsVersion",
    content_type="contentType",
    maps=True,
    json_headers=True,
    extensions="extensions",
    names="[A-Za-z][A-Za-z0-9]*",
    naming="A-Z, a-z and 0-9 only, first a letter",
    warn_above=100,
    taken=(
        *(*_TAKEN, "specversion", "id", "type", "time", "source", "eventtypeversion"),
        *("contenttype", "datacontenttype", "schemaurl", "dataschema", "data", "database64"),
    ),
)

VERSIONS = {v.name: v for v in (V1_0, V0_3, V0_2, V0_1)}


_NEEDED = frozenset(
    name.lower()
    for v in (V1_0, V0_3, V0_2, V0_1, V0_1_CAMEL)
    for name in ("specversion", "id", "source", "type", "cloudEventsVersion", "eventID", "eventType", v.content_type)
    if name
)


def spared(name: str) -> bool:
    """Whether an attribute, with its name in lower case, is optional in every version (`Version.spares`)."""
    return name not in _NEEDED


def version_of(attributes: Mapping[str, Any]) -> Version:
    """The version of an event; raises `Refused` if it is missing or unknown."""
    word = attributes.get("specversion")
    if type(word) is str and (version := VERSIONS.get(word)):
        return version
    attribute, known = "specversion", ", ".join(VERSIONS)
    if word is None and V0_1_CAMEL.specversion in attributes:
        attribute, known = V0_1_CAMEL.specversion, V0_1_CAMEL.name
        word = attributes[attribute]
        if word == known:
            return V0_1_CAMEL
    if word is None:
        raise V1_0.fault("specversion", "required attribute specversion is missing", "Required Attributes")
    raise V1_0.fault(attribute, f"unknown {attribute} {_short(str(word))}; known: {known}", attribute)


def version_to_write(attributes: Mapping[str, Any]) -> Version:
    """The version of any event: 1.0 if its version is missing or unknown."""
    try:
        return version_of(attributes)
    except Refused:
        return V1_0
