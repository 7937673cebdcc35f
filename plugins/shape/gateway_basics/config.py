"""The options of filters and key mappers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, ConfigDict, Field, GetJsonSchemaHandler, RootModel, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from gateway_core.contract.attribute_names import AttributeName, old_names
from gateway_core.contract.component import Config, FilterRef
from gateway_core.contract.filter_values import wildcards

from .jsonpath import parse

Text = Annotated[str, Field(min_length=1)]


class AttributesConfig(RootModel[Annotated[dict[AttributeName, Text], Field(min_length=1)]]):
    """Attribute names and the text to compare each with; all must match."""

    model_config = ConfigDict(frozen=True)

    def warnings(self) -> Iterable[tuple[tuple[str], str, str]]:
        """Warns about names that only old events have, and values with wildcards (see `Config`)."""
        found = (*old_names(self.root), *wildcards(self.root))
        return (((name,), message, remedy) for name, message, remedy in found)


class FiltersConfig(RootModel[Annotated[list[FilterRef], Field(min_length=1)]]):
    """A list of at least one filter."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)


class FilterConfig(RootModel[FilterRef]):
    """One filter."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)


class NoOptions(Config):
    """No options."""


class ShortConfig(Config):
    """Options with a short form: `attribute: subject` for `attribute: {name: subject}`."""

    _short: ClassVar[str]

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return {cls._short: value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        made: JsonSchemaValue = super().__get_pydantic_json_schema__(schema, handler)
        definition = handler.resolve_ref_schema(made)
        whole = dict(definition)
        definition.clear()
        definition["anyOf"] = [{"type": "string", "minLength": 1}, whole]
        return made


class AttributeKeyConfig(ShortConfig):
    """The attribute with the record key: `attribute: subject` or `attribute: {name: subject}`."""

    name: AttributeName
    """The attribute's name."""
    required: bool = False
    """Whether an event without it goes to the dead letter. Otherwise it is sent without a key."""

    _short = "name"


def _header(text: str) -> str:
    if text.lower() != "content-type" and not re.fullmatch("[cC][eE][_-][A-Za-z0-9]+", text):
        raise ValueError("events only keep the headers `ce_…` (Kafka), `ce-…` (HTTP) and `content-type`")
    return text


class HeaderKeyConfig(ShortConfig):
    """The header with the record key: `header: ce_subject` or `header: {name: ce_subject}`. Use the header's name on
    the wire. The key is the value of its attribute, however the event arrived: `ce_subject` and `ce-subject` are
    `subject`, `content-type` is `datacontenttype`. Events don't keep other headers; an event made from a Kafka record
    has them as attributes `kafkaheader…`."""

    name: Annotated[str, AfterValidator(_header)]
    """The header's name."""
    required: bool = False
    """Whether an event without it goes to the dead letter. Otherwise it is sent without a key."""

    _short = "name"

    @property
    def attribute(self) -> str:
        """The attribute name; "" for the content type, whose name depends on the event's version."""
        return self.name[3:] if self.name[2] in "_-" else ""


def _path(text: str) -> str:
    parse(text)
    return text


class JsonPathKeyConfig(ShortConfig):
    """The path of the record key in JSON data: `jsonpath: $.customer.id` or `jsonpath: {path: $.customer.id}`. A string
    becomes the key in UTF-8; a number or boolean is used as written in the data (`1.0` and `1` are different keys). For
    any other value, or if the content type is not JSON, there is no key."""

    path: Annotated[str, AfterValidator(_path)]
    """A path of names and indexes, `$.a.b[0]['c d']`: a singular query of RFC 9535 (JSONPath)."""
    required: bool = False
    """Whether an event without such a value goes to the dead letter. Otherwise it is sent without a key."""

    _short = "path"
