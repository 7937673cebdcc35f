"""The config page: the config in force, what reloads have said, and what the files say now."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import islice
from typing import Any

from anyio import to_thread
from gateway_admin.context import control_of
from gateway_admin.generations import RUNNING
from gateway_api.routes import Answer, Request, Route
from gateway_api.shown import as_yaml, shown
from gateway_serving.slices import at_once

from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.errors import ConfigError, Fault
from gateway_core.contract.loaded import Loaded
from gateway_core.contract.services import Reloader

from ..context import Console
from ..diff import Line, lines
from ..page import action, html, page, render, see_other

_PATH = "/config"
_TEMPLATE = "config.html"
MOST_SHOWN = 300
"""Entries of a section."""


@dataclass(frozen=True, slots=True)
class Compared:
    """What the files hold now: faults that keep them from being used, warnings, and how they differ from the config in
    force."""

    faults: list[Fault]
    warnings: list[Fault]
    differences: list[Line]


def written(config: GatewayConfig) -> str:
    """A config as YAML, with the secrets hidden."""
    parts: dict[str, Any] = {**shown(config), **{name: shown(entries) for name, entries in config.sections.items()}}
    return as_yaml({name: part for name, part in parts.items() if part not in ({}, [], None)})


def some(config: GatewayConfig, names: Collection[str] | None = None) -> GatewayConfig:
    """The config with these brokers, triggers and bridges, or the first of each, and no others."""
    kept = {}
    for section in RUNNING:
        entries = getattr(config, section)
        of_names = entries.items() if names is None else [each for each in entries.items() if each[0] in names]
        kept[section] = dict(islice(of_names, MOST_SHOWN))
    return config.model_copy(update=kept)


def differences(before: GatewayConfig, after: GatewayConfig) -> list[Line]:
    """How two configs differ; of long ones only the entries that do are compared line by line."""
    if max(_longest(before), _longest(after)) > MOST_SHOWN:
        names = set()
        for section in RUNNING:
            one, two = getattr(before, section), getattr(after, section)
            names |= {name for name in one.keys() | two.keys() if one.get(name) != two.get(name)}
        before, after = some(before, names), some(after, names)
    return lines(written(before), written(after))


def _compared(config: GatewayConfig, found: list[Loaded]) -> Compared:
    """How the config in force differs from what was loaded, which is gone then: in this thread, since it takes long."""
    loaded = found.pop()
    return Compared([], loaded.warnings, differences(config, loaded.config))


def _longest(config: GatewayConfig) -> int:
    return max(len(getattr(config, section)) for section in RUNNING)


def routes(console: Console) -> list[Route]:
    """The page, and the reload."""
    gateway = console.gateway

    def reloader() -> Reloader | None:
        found = gateway.reloader
        return found if found is not None and found.enabled else None

    async def compared() -> Compared | None:
        """None if the config came from no files."""
        service = reloader()
        if service is None or service.loaded is None:
            return None
        try:
            async with service.lock:
                found = [await service.load()]
        except ConfigError as e:
            return Compared(e.faults, [], [])
        return await to_thread.run_sync(_compared, gateway.config, found)

    async def show(request: Request) -> Answer:
        service = reloader()
        values = {
            "title": "Config",
            "config": at_once(gateway.status_in_steps(())).config,
            "files": service.loaded.files if service is not None and service.loaded is not None else [],
            "warnings": service.loaded.warnings if service is not None and service.loaded is not None else [],
            "failed": [(".".join(map(str, place)), why) for place, why in gateway.failed.items()],
            "compared": await compared(),
            "text": await to_thread.run_sync(written, some(gateway.config)),
            "more": _longest(gateway.config) > MOST_SHOWN,
            "reloaded": request.asked("reloaded") is not None,
        }
        return html(render(_TEMPLATE, request, **values))

    async def reload(request: Request) -> Answer:
        await control_of(console.admin).reload()
        return see_other(f"/console{_PATH}?reloaded")

    return [
        page(_PATH, show, "The config"),
        action(f"{_PATH}/reload", reload, "Read the config again", role="operator", audit="config.reload"),
    ]
