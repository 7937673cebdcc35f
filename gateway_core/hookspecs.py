"""All hook specifications, in the order they are asked when a gateway is built.

A plugin is a module (or object) registered under the entry-point group `tidegate`, with functions of these names marked
`@hookimpl`. Every hook takes nothing and returns a list of descriptors (`gateway_core.component`); None or an empty
list means "nothing to offer". Hooks are asked once, while a gateway is built, and never while events flow. They must be
cheap: import client libraries inside a component's `build`. An error raised by a hook stops the start, and names the
plugin; two components of one kind and name are an error that names both plugins.
"""

from __future__ import annotations

import pluggy

from .component import Command, Component, Transport

PROJECT = "tidegate"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def gateway_transports() -> list[Transport]:  # type: ignore[empty-body]
    """Ways in and ways out: sources (`gateway_core.interfaces.Source`) and sinks (`Sink` or `ReadingSink`)."""


@hookspec
def gateway_channels() -> list[Component]:  # type: ignore[empty-body]
    """Places where a broker keeps its events (`Channel`)."""


@hookspec
def gateway_codecs() -> list[Component]:  # type: ignore[empty-body]
    """Readers and writers of events in messages (`Codec`). `BuildContext.binding` says for which transport."""


@hookspec
def gateway_filters() -> list[Component]:  # type: ignore[empty-body]
    """Conditions on events (`build` returns a `Filter`)."""


@hookspec
def gateway_key_mappers() -> list[Component]:  # type: ignore[empty-body]
    """Record keys from events (`build` returns a `KeyMapper`)."""


@hookspec
def gateway_dead_letters() -> list[Component]:  # type: ignore[empty-body]
    """Sinks made for dead letters (`Sink`, and `DeadLetterStore` where they can be read again). Any other sink may be
    used as a dead letter too."""


@hookspec
def gateway_observers() -> list[Component]:  # type: ignore[empty-body]
    """Listeners to what happens to events (`Observer`)."""


@hookspec
def gateway_commands() -> list[Command]:  # type: ignore[empty-body]
    """Commands for the `tidegate` command line."""
