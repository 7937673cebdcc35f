"""All hook specifications, in the order in which they are called when a gateway is built.

A plugin is a module (or object) registered under the entry-point group `tidegate`, with functions of these names marked
`@hookimpl`. Every hook takes nothing and returns a list of descriptors (`gateway_core.contract.component`, for configs
`gateway_core.contract.config_extension`); None or an empty list means "nothing to offer". Hooks are called once, while
a gateway is built, and never while events flow. They must be cheap: import client libraries inside a component's
`build`. An error raised by a hook stops the start, and names the plugin; two components of one kind and name are an
error that names both plugins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from .component import BuildContext, Command, Component, SourceRef, Transport
    from .config_extension import ConfigFinding, ConfigSection, DocumentKind
    from .config_model import GatewayConfig
    from .durable import DurableNames
    from .errors import Fault, Probe
    from .interfaces import Admission
    from .runners import Runner
    from .services import Service
    from .settings import Settings

PROJECT = "tidegate"
GROUP = PROJECT
"""The group of entry points by which plugins are found."""
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def gateway_transports() -> list[Transport]:  # type: ignore[empty-body]
    """Sources (`gateway_core.contract.interfaces.Source`) and sinks (`Sink` or `ReadingSink`)."""


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
    """Sinks made for dead letters (`Sink`, and `DeadLetterStore` if they can be read again). Others may be used too."""


@hookspec
def gateway_observers() -> list[Component]:  # type: ignore[empty-body]
    """Observers of what happens to events (`Observer`)."""


@hookspec
def gateway_authenticators() -> list[Component]:  # type: ignore[empty-body]
    """Ways in which senders prove who they are (`build` returns an `Authenticator` of
    `gateway_core.contract.authenticator`)."""


@hookspec
def gateway_clients() -> list[Component]:  # type: ignore[empty-body]
    """Client libraries with which a transport can reach its servers. The transport's plugin says what `build` returns,
    and names a client in its options by a `ClientRef`."""


@hookspec
def gateway_admissions() -> list[Callable[[GatewayConfig, SourceRef, BuildContext], Admission | None]]:  # type: ignore[empty-body]
    """Conditions that events must meet before a broker or bridge accepts them. At the start and at each reload, each
    function takes the config, a source in it and the source's context, and returns the check of its events, or None. A
    check lets the events in, refuses them, or says that the gateway has them already, which their sender hears as a
    success (`gateway_core.contract.admission.Verdict`)."""


@hookspec
def gateway_commands() -> list[Command]:  # type: ignore[empty-body]
    """Commands for the `tidegate` command line."""


@hookspec
def gateway_config_sections() -> list[ConfigSection]:  # type: ignore[empty-body]
    """Sections of a config: top-level keys of a config file besides the gateway's own."""


@hookspec
def gateway_config_documents() -> list[DocumentKind]:  # type: ignore[empty-body]
    """Kinds of YAML documents that a config may have beside its sections, and what they mean in them."""


@hookspec
def gateway_config_checks() -> list[Callable[[GatewayConfig], Iterable[ConfigFinding]]]:  # type: ignore[empty-body]
    """Checks of a whole config, for what its entries mean together. Each takes the config and returns what it finds.
    Entries with faults of their own are left out; the `options` of a component at fault are None."""


@hookspec
def gateway_durable_names() -> list[DurableNames]:  # type: ignore[empty-body]
    """Names that outlive a config: of sessions, consumers, groups, queues and folders where events wait."""


@hookspec
def gateway_config_files() -> list[Callable[[Settings], list[Path]]]:  # type: ignore[empty-body]
    """Names the config files and folders in the data directory, before every load. Raises `StartError`."""


@hookspec
def gateway_services() -> list[Service]:  # type: ignore[empty-body]
    """Services that run beside the components of a gateway (`gateway_core.contract.services`)."""


@hookspec
def gateway_runners() -> list[Runner]:  # type: ignore[empty-body]
    """Ways to run a gateway other than in one process. The first runner that wants the process settings runs it."""


@hookspec
def gateway_settings_checks() -> list[Callable[[Settings], list[Fault]]]:  # type: ignore[empty-body]
    """Checks of the process settings for `tidegate check`: the faults with which `tidegate run` would not start."""


@hookspec
def gateway_connection_checks() -> list[Callable[[GatewayConfig, Settings], list[Probe]]]:  # type: ignore[empty-body]
    """What `tidegate check --connect` tries. Each takes the config and the process settings, and returns what came of
    trying the ends that it knows. It sends no event."""
