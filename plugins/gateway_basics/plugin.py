"""The plugin's hooks."""

from __future__ import annotations

from gateway_core.contract.component import Component
from gateway_core.contract.hookspecs import hookimpl


@hookimpl
def gateway_filters() -> list[Component]:
    from . import filters
    from .config import AttributesConfig, FilterConfig, FiltersConfig

    return [
        Component("exact", "Matches when every attribute equals its value.", AttributesConfig, filters.build_exact),
        Component(
            "prefix", "Matches when every attribute starts with its text.", AttributesConfig, filters.build_prefix
        ),
        Component("suffix", "Matches when every attribute ends with its text.", AttributesConfig, filters.build_suffix),
        Component("all", "Matches when all of a list of filters match.", FiltersConfig, filters.build_all),
        Component("any", "Matches when at least one of a list of filters matches.", FiltersConfig, filters.build_any),
        Component("not", "Matches when a filter does not.", FilterConfig, filters.build_not),
    ]


@hookimpl
def gateway_key_mappers() -> list[Component]:
    from . import keys
    from .config import AttributeKeyConfig, HeaderKeyConfig, JsonPathKeyConfig, NoOptions

    return [
        Component("record", "Keeps the key that the event came with, if any.", NoOptions, keys.build_record),
        Component("none", "Sends records without a key.", NoOptions, keys.build_none),
        Component(
            "partitionkey",
            "The key is the `partitionkey` extension; without it the key that the event came with.",
            NoOptions,
            keys.build_partitionkey,
        ),
        Component(
            "attribute",
            "The key is the value of an attribute, if it exists.",
            AttributeKeyConfig,
            keys.build_attribute,
        ),
        Component(
            "header",
            "The key is the value of a header's attribute; the header has its name on the wire.",
            HeaderKeyConfig,
            keys.build_header,
        ),
        Component("jsonpath", "The key is a value from JSON data.", JsonPathKeyConfig, keys.build_jsonpath),
    ]
