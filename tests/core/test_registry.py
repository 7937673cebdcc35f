"""What plugins offer, and how a bad one is named."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway_core.config.registry import Registry
from gateway_core.contract.clock import SystemClock
from gateway_core.contract.component import (
    BuildContext,
    CodecRef,
    Component,
    Config,
    DeadLetterRef,
    OwnMetric,
    SinkRef,
    Transport,
)
from gateway_core.contract.configs import load
from gateway_core.contract.errors import ConfigError, MissingExtra, StartError
from gateway_core.contract.hookspecs import hookimpl


class Options(Config):
    word: str = "w"


def plugin(**hooks: Any) -> SimpleNamespace:
    """A plugin whose hooks return these values, or raise them."""

    def hook(name: str, value: Any) -> Any:
        def offers() -> Any:
            if isinstance(value, Exception):
                raise value
            return value

        offers.__name__ = name
        return hookimpl(offers)

    return SimpleNamespace(**{name: hook(name, value) for name, value in hooks.items()})


def codec(name: str, **more: Any) -> Component:
    return Component(name, "A codec.", Options, lambda options, context: (options.word, context.owner), **more)


def context(registry: Registry) -> BuildContext:
    return BuildContext("place.in.config", Path("data"), SystemClock(), registry)


@pytest.mark.spec("CARD-01")
def test_components_are_found_by_kind_and_name_and_built_with_their_options() -> None:
    registry = Registry()
    registry.add(
        "mine", plugin(gateway_codecs=[codec("a"), codec("b")], gateway_transports=[Transport("t", sink=codec("t"))])
    )
    registry.check()
    assert [(o.kind, o.component.name, o.plugin) for o in registry.offers()] == [
        ("codec", "a", "mine"),
        ("codec", "b", "mine"),
        ("sink", "t", "mine"),
    ]
    assert registry.build(CodecRef("b", {"word": "x"}), context(registry)) == ("x", "place.in.config")
    assert registry.build(SinkRef("t"), context(registry)) == ("w", "place.in.config")


def test_any_sink_serves_as_a_dead_letter_but_not_the_other_way() -> None:
    registry = Registry()
    registry.add(
        "mine", plugin(gateway_dead_letters=[codec("d")], gateway_transports=[Transport("t", sink=codec("t"))])
    )
    assert registry.build(DeadLetterRef("t"), context(registry))
    assert registry.build(DeadLetterRef("d"), context(registry))
    assert registry.find("sink", "d") is None
    assert [o.component.name for o in registry.offers("dead_letter")] == ["d", "t"]


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (plugin(gateway_codecs=[codec("a")]), "codec 'a' comes from two plugins: 'first' and 'second'"),
        (plugin(gateway_codecs=ValueError("oh")), "plugin 'second' failed in gateway_codecs: ValueError: oh"),
        (plugin(gateway_codec=[codec("c")]), "unknown hook.*gateway_codec"),
        (
            plugin(gateway_codecs=[codec("b", metrics=[OwnMetric("a_total", "counter", "How many.")])]),
            "plugin 'second' declares metrics of the codec 'b', which nothing collects",
        ),
    ],
)
def test_a_bad_plugin_is_named_and_stops_the_start(second: Any, message: str) -> None:
    registry = Registry()
    registry.add("first", plugin(gateway_codecs=[codec("a")]))
    with pytest.raises(StartError, match=message):  # noqa: PT012 - either of the two tells
        registry.add("second", second)
        registry.check()


def test_the_same_entry_point_name_twice_is_an_error() -> None:
    registry = Registry()
    registry.add("one", plugin(), "dist-a 1")
    with pytest.raises(StartError, match="registered twice: by dist-a 1 and by dist-b 2"):
        registry.add("one", plugin(), "dist-b 2")


def test_a_missing_library_is_told_with_the_extra_that_brings_it() -> None:
    registry = Registry()
    registry.add("mine", plugin(gateway_codecs=[codec("a", requires=("no_such_module",), extra="nosuch")]))
    assert registry.offers("codec")[0].missing == "needs no_such_module: install tidegate[nosuch]"
    with pytest.raises(
        MissingExtra, match=r"place.in.config: codec 'a' needs no_such_module: install tidegate\[nosuch\]"
    ):
        registry.build(CodecRef("a"), context(registry))


def test_an_unknown_name_is_told_with_the_nearest() -> None:
    registry = Registry()
    registry.add("mine", plugin(gateway_codecs=[codec("cloudevents")]))
    with pytest.raises(StartError, match="unknown codec 'cloudevent'; did you mean `cloudevents`"):
        registry.build(CodecRef("cloudevent"), context(registry))
    assert registry.suggest("codec", "zzz") == "installed: cloudevents"
    assert registry.suggest("filter", "zzz") == "no plugin offers one"


@pytest.mark.spec("CARD-05")
def test_everything_shipped_comes_in_by_its_entry_point() -> None:
    registry = Registry.installed()
    offered = {(o.kind, o.component.name): o.plugin for o in registry.offers()}
    expected = {
        ("source", "http"): "http",
        ("sink", "http"): "http",
        ("sink", "file"): "file",
        ("sink", "stdout"): "file",
        ("sink", "spark"): "spark",
        ("channel", "log"): "log",
        ("codec", "cloudevents"): "cloudevents",
        ("dead_letter", "deadletter"): "deadletter",
        ("observer", "otel"): "otel",
        **{("filter", f): "basics" for f in ("exact", "prefix", "suffix", "any", "all", "not", "data")},
        **{("key_mapper", k): "basics" for k in ("record", "partitionkey", "jsonpath")},
    }
    assert expected.items() <= offered.items()
    assert {"log", "demo"} <= registry.commands.keys()


def test_a_model_is_imported_when_it_is_used() -> None:
    imported = []

    def model() -> type[Options]:
        imported.append("once")
        return Options

    registry = Registry()
    lazy = Component("a", "A codec.", model, lambda options, context: options.word)
    registry.add("mine", plugin(gateway_codecs=[lazy]))
    assert not imported
    assert registry.build(CodecRef("a", {"word": "x"}), context(registry)) == "x"
    assert imported


def test_a_model_that_cannot_be_imported_is_a_fault_of_the_configs_that_use_it(tmp_path: Path) -> None:
    def model() -> type[Options]:
        raise ImportError("no module named 'moon'")

    registry = Registry()
    registry.add("mine", plugin(gateway_transports=[Transport("t", sink=Component("t", "A sink.", model, print))]))
    with pytest.raises(StartError, match="options of 't' can't be imported: ImportError: no module named 'moon'"):
        registry.build(SinkRef("t"), context(registry))
    file = tmp_path / "tidegate.yaml"
    file.write_text("triggers: {}\n")
    load([file], registry)
    file.write_text("triggers: {a: {subscriber: t}, b: {subscriber: nothing}}\n")
    with pytest.raises(ConfigError) as caught:
        load([file], registry)
    told = {fault.path: fault.message for fault in caught.value.faults}
    assert "plugin `mine` failed" in told["triggers.a.subscriber.t"]
    assert "no module named 'moon'" in told["triggers.a.subscriber.t"]
    assert "unknown sink" in told["triggers.b.subscriber"]
