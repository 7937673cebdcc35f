"""The plugin's hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway_core.contract.component import BuildContext, Component
from gateway_core.contract.hookspecs import hookimpl

if TYPE_CHECKING:
    from pydantic import BaseModel

    from gateway_core.contract.interfaces import Filter

    from .data_config import DataConfig


def _attributes() -> type[BaseModel]:
    from .config import AttributesConfig

    return AttributesConfig


def _filter() -> type[BaseModel]:
    from .config import FilterConfig

    return FilterConfig


def _filters() -> type[BaseModel]:
    from .config import FiltersConfig

    return FiltersConfig


def _data() -> type[BaseModel]:
    from .data_config import DataConfig

    return DataConfig


def _build_data(config: DataConfig, context: BuildContext) -> Filter:
    from .data import build_data

    return build_data(config, context)


def _no_options() -> type[BaseModel]:
    from .config import NoOptions

    return NoOptions


def _attribute_key() -> type[BaseModel]:
    from .config import AttributeKeyConfig

    return AttributeKeyConfig


def _header_key() -> type[BaseModel]:
    from .config import HeaderKeyConfig

    return HeaderKeyConfig


def _jsonpath_key() -> type[BaseModel]:
    from .config import JsonPathKeyConfig

    return JsonPathKeyConfig


@hookimpl
def gateway_filters() -> list[Component]:
    from . import filters

    return [
        Component("exact", "Matches when every attribute equals its value.", _attributes, filters.build_exact),
        Component("prefix", "Matches when every attribute starts with its text.", _attributes, filters.build_prefix),
        Component("suffix", "Matches when every attribute ends with its text.", _attributes, filters.build_suffix),
        Component("all", "Matches when all of a list of filters match.", _filters, filters.build_all),
        Component("any", "Matches when at least one of a list of filters matches.", _filters, filters.build_any),
        Component("not", "Matches when a filter does not.", _filter, filters.build_not),
        Component("data", "Matches when values in JSON data meet all conditions.", _data, _build_data),
    ]


@hookimpl
def gateway_key_mappers() -> list[Component]:
    from . import keys

    return [
        Component("record", "Keeps the key that the event came with, if any.", _no_options, keys.build_record),
        Component("none", "Sends records without a key.", _no_options, keys.build_none),
        Component(
            "partitionkey",
            "The key is the `partitionkey` extension; without it the key that the event came with.",
            _no_options,
            keys.build_partitionkey,
        ),
        Component(
            "attribute",
            "The key is the value of an attribute, if it exists.",
            _attribute_key,
            keys.build_attribute,
        ),
        Component(
            "header",
            "The key is the value of a header's attribute; the header has its name on the wire.",
            _header_key,
            keys.build_header,
        ),
        Component("jsonpath", "The key is a value from JSON data.", _jsonpath_key, keys.build_jsonpath),
    ]
