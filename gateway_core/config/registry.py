"""The components that plugins offer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from importlib.metadata import Distribution, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from ..contract.component import BuildContext, Command, Component, ComponentRef, Kind, SourceRef
from ..contract.config_extension import ConfigFinding, ConfigSection, DocumentKind
from ..contract.config_model import GatewayConfig
from ..contract.durable import DurableNames
from ..contract.errors import Fault, MissingExtra, Probe, StartError
from ..contract.faults import near
from ..contract.hookspecs import GROUP
from ..contract.interfaces import Admission, Clause, Filter
from ..contract.offer import Offer
from ..contract.runners import Runner
from ..contract.services import Service
from .installed import Plugins, loaded
from .shared_names import sharing

if TYPE_CHECKING:
    from ..contract.settings import Settings

_T = TypeVar("_T")
_HOOKS: dict[str, Kind] = {
    "gateway_channels": "channel",
    "gateway_codecs": "codec",
    "gateway_filters": "filter",
    "gateway_key_mappers": "key_mapper",
    "gateway_dead_letters": "dead_letter",
    "gateway_observers": "observer",
    "gateway_authenticators": "authenticator",
    "gateway_clients": "client",
}


_MEASURED = ("source", "sink", "channel", "dead_letter")
"""The kinds of components whose own metrics are collected."""


class Registry:
    """All offers, by kind and name. One for each gateway object; nothing global."""

    def __init__(self) -> None:
        self._plugins = Plugins()
        self._ask = self._plugins.ask
        self._offers: dict[tuple[Kind, str], Offer] = {}
        self._schemes: dict[tuple[Kind, str], str] = {}
        self.commands: dict[str, tuple[Command, str]] = {}
        self.sections: dict[str, tuple[ConfigSection, str]] = {}  # with the plugin that offers it
        self.documents: dict[str, tuple[DocumentKind, str]] = {}
        self.services: dict[str, tuple[Service, str]] = {}
        self.admissions: list[Callable[[GatewayConfig, SourceRef, BuildContext], Admission | None]] = []
        self.durable_names: list[DurableNames] = []
        self._config_files: list[Callable[[Settings], Iterable[Path]]] = []
        self.runners: dict[str, tuple[Runner, str]] = {}
        self.config_checks: list[tuple[Callable[[GatewayConfig], Iterable[ConfigFinding]], str]] = [
            (self.shared_names, "tidegate")
        ]
        self.settings_checks: list[Callable[[Settings], Iterable[Fault]]] = [self.missing_runner]
        self.connection_checks: list[tuple[Callable[[GatewayConfig, Settings], Iterable[Probe]], str]] = []
        self.plugins: dict[str, str] = {}  # entry-point name -> "distribution version"

    @classmethod
    def installed(cls) -> Registry:
        """The registry of everything that is installed: every entry point of the group `tidegate`.

        Raises `StartError` naming the plugin if one can't be imported, misspells a hook or offers a name twice.
        """
        registry = cls()
        releases: dict[Distribution | None, str] = {None: "?"}  # reading the metadata takes milliseconds
        for point in sorted(entry_points(group=GROUP), key=lambda p: p.name):
            plugin = loaded(point)
            if point.dist is not None and point.dist not in releases:
                metadata = point.dist.metadata
                releases[point.dist] = f"{metadata['Name']} {metadata['Version']}"
            registry.add(point.name, plugin, releases[point.dist])
        registry.check()
        return registry

    def add(self, name: str, plugin: object, where: str = "") -> None:
        """Registers one plugin and collects what it offers."""
        if name in self.plugins:
            raise StartError(f"plugin {name!r} is registered twice: by {self.plugins[name]} and by {where}")
        self._plugins.add(name, plugin)
        self.plugins[name] = where
        for hook, kind in _HOOKS.items():
            for component in self._ask(hook, name):
                self._offer(kind, component, name)
        for transport in self._ask("gateway_transports", name):
            if transport.source:
                self._offer("source", transport.source, name)
            if transport.sink:
                self._offer("sink", transport.sink, name)
        self._enter(self.commands, "gateway_commands", "command", name)
        self._enter(self.services, "gateway_services", "service", name)
        self._enter(self.runners, "gateway_runners", "runner", name)
        self._enter(self.sections, "gateway_config_sections", "config section", name)
        self._enter(self.documents, "gateway_config_documents", "document kind", name)
        for section in self.sections.keys() & GatewayConfig.model_fields.keys():
            raise StartError(f"config section {section!r} of plugin {name!r} is one of the gateway's own")
        self.config_checks += [(check, name) for check in self._ask("gateway_config_checks", name)]
        self.durable_names += self._ask("gateway_durable_names", name)
        self._config_files += self._ask("gateway_config_files", name)
        self.admissions += self._ask("gateway_admissions", name)
        self.settings_checks += self._ask("gateway_settings_checks", name)
        self.connection_checks += [(check, name) for check in self._ask("gateway_connection_checks", name)]

    def _enter(self, table: dict[str, tuple[Any, str]], hook: str, word: str, plugin: str) -> None:
        """Adds what a plugin offers by a hook to a table of such things by name."""
        for offered in self._ask(hook, plugin):
            if taken := table.get(offered.name):
                raise _offered_twice(f"{word} {offered.name!r}", taken[1], plugin)
            table[offered.name] = (offered, plugin)

    def check(self) -> None:
        """Raises `StartError` if a plugin implements a hook that does not exist: its name may be misspelt."""
        self._plugins.check()

    def _offer(self, kind: Kind, component: Component, plugin: str) -> None:
        if taken := self._offers.get((kind, component.name)):
            raise _offered_twice(f"{kind} {component.name!r}", taken.plugin, plugin)
        if component.metrics and kind not in _MEASURED:
            raise StartError(
                f"plugin {plugin!r} declares metrics of the {kind} {component.name!r}, which nothing collects: only "
                f"{', '.join(_MEASURED)} can have some"
            )
        self._offers[kind, component.name] = Offer(kind, component, plugin)
        for scheme in component.schemes:
            self._schemes[kind, scheme] = component.name

    def offers(self, kind: Kind | None = None) -> list[Offer]:
        """All offers (of one kind), sorted by kind and name. For `dead_letter`, sinks are included."""
        kinds: set[str] = {kind} if kind else set(get_args(Kind))
        if kind == "dead_letter":
            kinds.add("sink")
        return [o for (k, _), o in sorted(self._offers.items()) if k in kinds]

    def find(self, kind: Kind, name: str) -> Offer | None:
        """The offer of this kind and name; a dead letter may be any sink."""
        return _of_kind(self._offers, kind, name)

    def by_scheme(self, kind: Kind, url: str) -> str | None:
        """The name of the component that a URL stands for, None if no component has its scheme."""
        return _of_kind(self._schemes, kind, url.partition("://")[0].lower())

    def scheme(self, kind: Kind) -> str | None:
        """The first scheme of the URLs that stand for components of this kind, None if there is none."""
        kinds = (kind, "sink") if kind == "dead_letter" else (kind,)
        return next((scheme for of, scheme in self._schemes if of in kinds), None)

    def suggest(self, kind: Kind, name: str) -> str:
        """The remedy for an unknown name: the nearest one, or all there are."""
        names = [o.component.name for o in self.offers(kind)]
        return near(name, names) or (f"installed: {', '.join(names)}" if names else "no plugin offers one")

    def config_files(self, settings: Settings) -> list[Path]:
        """The config files that plugins keep in the data directory. Raises `StartError`."""
        return [file for kept in self._config_files for file in kept(settings)]

    def runner(self, settings: Settings) -> Runner | None:
        """The first runner that wants these settings; None if the gateway runs in this process."""
        wanting = [runner for runner, _ in self.runners.values() if runner.wants(settings)]
        return min(wanting, key=lambda runner: runner.fallback, default=None)

    def missing_runner(self, settings: Settings) -> list[Fault]:
        """The fault if these settings need a runner and no plugin offers one."""
        if settings.workers == 1 or self.runner(settings) is not None:
            return []
        text = f"{settings.workers} workers need a plugin that runs them, and none is installed"
        return [Fault(text, "TIDEGATE_WORKERS", remedy="install Tidegate with its plugin `workers`, or set it to 1")]

    def shared_names(self, config: GatewayConfig) -> Iterable[ConfigFinding]:
        """Components whose durable names get in each other's way."""
        return sharing(name for offered in self.durable_names for name in offered.names(config, ()))

    def build(self, ref: ComponentRef, context: BuildContext) -> Any:
        """Calls a component's constructor. Raises `MissingExtra` or `StartError`, naming the owner in the config."""
        offer = self.find(ref.kind, ref.name)
        if offer is None:
            raise StartError(f"{context.owner}: unknown {ref.kind} {ref.name!r}; {self.suggest(ref.kind, ref.name)}")
        if offer.missing:
            raise MissingExtra(f"{context.owner}: {ref.kind} {ref.name!r} {offer.missing}")
        options = ref.options if ref.options is not None else offer.component.model.model_validate(ref.raw or {})
        made = offer.component.build(options, context)
        return _named(made, ref.name) if ref.kind == "filter" else made


def _offered_twice(what: str, first: str, second: str) -> StartError:
    return StartError(f"{what} comes from two plugins: {first!r} and {second!r}")


def _of_kind(table: Mapping[tuple[Kind, str], _T], kind: Kind, word: str) -> _T | None:
    """What a table has for a kind; a dead letter may be any sink."""
    found = table.get((kind, word))
    return table.get(("sink", word)) if found is None and kind == "dead_letter" else found


def _named(filter: Filter, name: str) -> Filter:
    """The filter. If it has no explanation, its name serves as one."""
    if filter.explain is not None:
        return filter
    return replace(filter, explain=lambda event: Clause(name, filter.matches(event)))
