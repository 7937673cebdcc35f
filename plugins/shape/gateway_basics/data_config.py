"""The options of the filter `data`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    GetJsonSchemaHandler,
    RootModel,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    Tag,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from gateway_core.contract.component import Config

from .data_paths import MAX_BYTES, steps
from .wildcard import pieces

MOST_PATHS = 100
MOST_CHOICES = 100
"""The most values or conditions in a list."""
USUAL_BYTES = 256 * 1024
MOST_BYTES = 16 * 1024 * 1024
_MOST_EXACT = 2**53


class ConditionFault(ValueError):
    """What is wrong with a condition, and the remedy."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


def _exact(number: Any) -> Any:
    """Refuses a number that is not compared as it was written."""
    if isinstance(number, float) and not isfinite(number):
        raise ConditionFault("JSON has no such number", "write a finite number")
    if isinstance(number, float) and abs(number) >= _MOST_EXACT:
        message = "a number of this size with a fraction or an exponent was rounded when the config was read"
        raise ConditionFault(message, "write all of its digits, without a fraction or an exponent")
    return number


Number = Annotated[StrictInt | StrictFloat, AfterValidator(_exact)]
Scalar = Annotated[StrictBool | StrictInt | StrictFloat | StrictStr | None, AfterValidator(_exact)]


_PLAIN, _MAPPING, _LIST = "a plain value", "a mapping of operators", "a list of choices"


def _kind(value: Any) -> str:
    """The arm of a union that a value is for."""
    return _LIST if isinstance(value, list) else _kind_of_choice(value)


def _kind_of_choice(value: Any) -> str:
    return _MAPPING if isinstance(value, dict | BaseModel) else _PLAIN


def _kind_of_texts(value: Any) -> str:
    return _LIST if isinstance(value, list) else _PLAIN


_Part = Annotated[StrictStr, Field(min_length=1)]
_Texts = Annotated[
    Annotated[_Part, Tag(_PLAIN)] | Annotated[list[_Part], Field(min_length=1, max_length=MOST_CHOICES), Tag(_LIST)],
    Discriminator(_kind_of_texts),
]


def _pattern(text: str) -> str:
    pieces(text)
    return text


_Pattern = Annotated[_Part, AfterValidator(_pattern)]
_Patterns = Annotated[
    Annotated[_Pattern, Tag(_PLAIN)]
    | Annotated[list[_Pattern], Field(min_length=1, max_length=MOST_CHOICES), Tag(_LIST)],
    Discriminator(_kind_of_texts),
]


class Comparisons(Config):
    """Conditions that one value must fulfil together."""

    prefix: _Texts = None  # type: ignore[assignment]
    """A string that begins with this text, or with one of a list."""
    suffix: _Texts = None  # type: ignore[assignment]
    """A string that ends with this text, or with one of a list."""
    wildcard: _Patterns = None  # type: ignore[assignment]
    """A string that is this text, where `*` stands for any characters and `\\*` for a star; or one of a list."""
    equals_ignore_case: _Texts = None  # type: ignore[assignment]
    """A string that is this text but for upper and lower case; or one of a list."""
    gt: Number = None  # type: ignore[assignment]
    """A number above this one."""
    gte: Number = None  # type: ignore[assignment]
    """A number of at least this one."""
    lt: Number = None  # type: ignore[assignment]
    """A number below this one."""
    lte: Number = None  # type: ignore[assignment]
    """A number of at most this one."""

    @model_validator(mode="before")
    @classmethod
    def _has_no_members(cls, value: Any) -> Any:
        known = {field.alias or name for name, field in cls.model_fields.items()}
        for name, inner in value.items() if isinstance(value, dict) else ():
            if isinstance(inner, dict) and name not in known:
                message = f"`{name}` is no operator, and conditions are not nested like the data"
                raise ConditionFault(message, f"write the whole path to a value as the key: `….{name}`")
        return value

    @model_validator(mode="after")
    def _says_something(self) -> Comparisons:
        if not self.model_fields_set:
            raise ConditionFault("the mapping has no operator", "write one, as in `{gt: 100}`")
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        made: JsonSchemaValue = super().__get_pydantic_json_schema__(schema, handler)
        definition = handler.resolve_ref_schema(made)
        definition["minProperties"] = 1
        for option in definition["properties"].values():
            option.pop("default", None)
        return made


_Excluding = Annotated[
    Annotated[Scalar, Tag(_PLAIN)] | Annotated[Comparisons, Tag(_MAPPING)],
    Discriminator(_kind_of_choice),
]
_Excluded = Annotated[
    Annotated[Scalar, Tag(_PLAIN)]
    | Annotated[Comparisons, Tag(_MAPPING)]
    | Annotated[list[_Excluding], Field(min_length=1, max_length=MOST_CHOICES), Tag(_LIST)],
    Discriminator(_kind),
]


class Operators(Comparisons):
    """Conditions that one value must fulfil together; `exists` stands alone."""

    not_: _Excluded = Field(default=None, alias="not")
    """A value that is there, and is none of these: a value, operators, or a list of them."""
    exists: StrictBool = None  # type: ignore[assignment]
    """Whether there is anything at the path."""

    @model_validator(mode="after")
    def _exists_stands_alone(self) -> Operators:
        if "exists" in self.model_fields_set and len(self.model_fields_set) > 1:
            raise ConditionFault(
                "`exists` stands alone: the other operators need a value anyway",
                "leave out `exists: true`; write `[{exists: false}, {…}]` for events without a value, too",
            )
        return self


Choice = Annotated[Annotated[Scalar, Tag(_PLAIN)] | Annotated[Operators, Tag(_MAPPING)], Discriminator(_kind_of_choice)]
Condition = Annotated[
    Annotated[Scalar, Tag(_PLAIN)]
    | Annotated[Operators, Tag(_MAPPING)]
    | Annotated[list[Choice], Field(min_length=1, max_length=MOST_CHOICES), Tag(_LIST)],
    Discriminator(_kind),
]


def _path(text: str) -> str:
    if text != MAX_BYTES:
        steps(text)
    return text


Path = Annotated[str, AfterValidator(_path)]


class DataConfig(RootModel[Annotated[dict[Path, Condition], Field(max_length=MOST_PATHS + 1)]]):
    """Paths into JSON data, and what must be there; all must match: `data: {total: {gt: 100}, customer.tier: [gold]}`.
    `$max_bytes` is the most data that is decoded, 262144 by default: an event with more does not match."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    @model_validator(mode="after")
    def _has_paths(self) -> DataConfig:
        limit = self.root.get(MAX_BYTES, USUAL_BYTES)
        if type(limit) is not int or not 1 <= limit <= MOST_BYTES:
            raise ConditionFault(f"`{MAX_BYTES}` is a number of bytes", f"write one from 1 to {MOST_BYTES}")
        if not self.paths:
            raise ConditionFault("it has no path", "write one with a condition, as in `total: {gt: 100}`")
        return self

    @property
    def paths(self) -> Mapping[str, Any]:
        """The conditions by path."""
        return {path: condition for path, condition in self.root.items() if path != MAX_BYTES}

    @property
    def max_bytes(self) -> int:
        """The most data that is decoded."""
        limit = self.root.get(MAX_BYTES)
        return limit if isinstance(limit, int) else USUAL_BYTES

    def warnings(self) -> Iterator[tuple[tuple[str, ...], str, str]]:
        """Warns of `*` in a value that is compared as it is (see `Config`)."""
        for path, condition in self.paths.items():
            for choice in condition if isinstance(condition, list) else [condition]:
                if isinstance(choice, str) and "*" in choice:
                    message = f"`{choice}` is compared as it is: `*` stands for nothing else"
                    yield (path,), message, f"write `{{wildcard: {choice}}}`"

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        made: JsonSchemaValue = super().__get_pydantic_json_schema__(schema, handler)
        definition = handler.resolve_ref_schema(made)
        limit = {"type": "integer", "minimum": 1, "maximum": MOST_BYTES, "default": USUAL_BYTES}
        definition["properties"] = {MAX_BYTES: {"description": "The most data that is decoded, in bytes.", **limit}}
        definition["minProperties"] = 1
        return made
