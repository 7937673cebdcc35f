"""The options of filters and key mappers."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field, RootModel, model_validator

from gateway_core.component import Config, FilterRef

Text = Annotated[str, Field(min_length=1)]


class AttributesConfig(RootModel[Annotated[dict[Text, Text], Field(min_length=1)]]):
    """Attribute names and the text that each is compared with; all must match."""

    model_config = ConfigDict(frozen=True)


class FiltersConfig(RootModel[Annotated[list[FilterRef], Field(min_length=1)]]):
    """A list of filters, one at least."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)


class FilterConfig(RootModel[FilterRef]):
    """One filter."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)


class NoOptions(Config):
    """There is nothing to set."""


class AttributeKeyConfig(Config):
    """Which attribute is the record key: `attribute: subject` or `attribute: {name: subject}`."""

    name: Text
    """The attribute's name."""

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value
