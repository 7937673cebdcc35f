"""Checks the components named in a config, and sets the validated options of each reference."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

from pydantic import BaseModel, RootModel, TypeAdapter, ValidationError

from ..contract.annotations import written_refs
from ..contract.component import Component, ComponentRef, Config, Kind
from ..contract.components import Components
from ..contract.config_extension import ConfigSection
from ..contract.config_model import GatewayConfig
from ..contract.config_node import Place
from ..contract.model_errors import explain
from .report import Report


class Resolver:
    """Validates values against models, then resolves the references in them, at any depth."""

    def __init__(self, registry: Components, report: Report) -> None:
        self._registry = registry
        self._report = report
        self._resolved: dict[tuple[str, str, str | None], tuple[str, Any]] = {}

    def validate(self, model: Any, data: Any, path: Place) -> Any:
        """The data as this type (a model or another annotation) with all references resolved, or None after a fault."""
        try:
            value = _adapter(model).validate_python(data)
        except ValidationError as e:
            for finding in explain(e, data, model, lambda p: self._report.is_hidden((*path, *p))):
                self._report.fault(finding.message, (*path, *finding.path), finding.remedy)
            for ref, at in written_refs(model, data, path):
                self.resolve(ref, at)
            return None
        self.walk(value, path)
        return value

    def walk(self, value: Any, path: Place) -> None:
        """Resolves every reference in a validated value."""
        if isinstance(value, ComponentRef):
            self.resolve(value, path)
        elif isinstance(value, RootModel):
            self.walk(value.root, path)
            self.warnings_of(value, path)
        elif isinstance(value, BaseModel):
            fields = type(value).model_fields
            if isinstance(value, Config) and self._report.hides:
                value.hide(n for n, i in fields.items() if self._report.holds_secret((*path, i.alias or n)))
                texts = {n: self._report.shown((*path, i.alias or n)) for n, i in fields.items()}
                value.show_as({n: t for n, t in texts.items() if t is not None and isinstance(getattr(value, n), str)})
            for name, inner in value.__dict__.items():
                if isinstance(inner, _CONTAINERS):
                    self.walk(inner, (*path, fields[name].alias or name))
            self.warnings_of(value, path)
        elif isinstance(value, dict):
            for key, inner in value.items():
                self.walk(inner, (*path, str(key)))
        elif isinstance(value, list | tuple):
            for i, inner in enumerate(value):
                self.walk(inner, (*path, i))

    def warnings_of(self, value: BaseModel, path: Place) -> None:
        """Reports what a model warns of."""
        warnings = getattr(type(value), "warnings", None)  # see `Config`
        for below, message, remedy in warnings(value) if warnings is not None else ():
            self._report.warn(message, (*path, *below), remedy)

    def check(self, config: GatewayConfig) -> None:
        """Checks what the valid entries of a config mean together."""
        self.warnings_of(config, ())
        self._dialects_as_attributes(config)
        for check, plugin in self._registry.config_checks:
            try:
                for finding in check(config):
                    report = self._report.warn if finding.warning else self._report.fault
                    report(finding.message, finding.place, finding.remedy)
            except Exception as e:
                self._report.fault(f"the plugin `{plugin}` failed to check the config: {type(e).__name__}: {e}", ())

    def _dialects_as_attributes(self, config: GatewayConfig) -> None:
        """Warns of a filter's name where an attribute's is expected: `filter: {cesql: "…"}`."""
        for trigger, entry in config.triggers.items():
            for name, text in entry.filter.items():
                if self._registry.find("filter", name):
                    message = f"this asks for an attribute called `{name}`, not for the filter `{name}`"
                    quoted = text if text.isidentifier() else json.dumps(text, ensure_ascii=False)
                    remedy = f"write `filters: [{{{name}: {quoted}}}]`"
                    self._report.warn(message, ("triggers", trigger, "filter", name), remedy)

    def resolve(self, ref: ComponentRef, path: Place) -> None:
        """Sets `ref.name` and `ref.options`, or reports what is wrong with them. What is written as one word or URL
        gets the options of the first such reference, unless something was said about them: nothing changes options."""
        raw, said = ref.raw, self._report.said
        same = (ref.kind, ref.name, raw) if raw is None or isinstance(raw, str) else None
        if same in self._resolved and not self._report.hides:
            ref.name, ref.options = self._resolved[same]
            return
        if not ref.name:
            name = self._registry.by_scheme(ref.kind, raw)
            if name is None:
                self._unknown_scheme(ref.kind, raw, path)
                return
            ref.name, raw = name, {"url": raw}
        offer = self._registry.find(ref.kind, ref.name)
        word = ref.kind.replace("_", " ")
        if offer is None:
            remedy = self._registry.suggest(ref.kind, ref.name)
            if ref.kind == "filter" and isinstance(raw, str) and remedy.startswith("installed"):
                remedy = f"to compare an attribute, write `exact: {{{ref.name}: {raw}}}`"
            if _ADDRESS.match(ref.name) and (scheme := self._registry.scheme(ref.kind)):
                remedy = f"write {scheme}://{ref.name} if that is its address"
            self._report.fault(f"unknown {word} `{ref.name}`", path, remedy)
            return
        if offer.missing:
            needs, _, remedy = offer.missing.partition(": ")
            self._report.fault(f"{word} `{ref.name}` {needs}, which isn't installed", path, remedy)
        inner = (*path, ref.name)
        ref.options = self.validate_plugins(offer.component, {} if raw is None else raw, inner, offer.plugin)
        if same and self._report.said == said and not self._report.hides and not self._report.bad:
            self._resolved[same] = ref.name, ref.options

    def validate_plugins(self, offered: Component | ConfigSection, data: Any, path: Place, plugin: str) -> Any:
        """`validate` for a plugin's type. If the plugin's own checks fail, that is a fault that names the plugin."""
        try:
            return self.validate(offered.model, data, path)
        except Exception as e:  # its import, or a validator that raises something else than ValueError
            self._report.fault(f"the plugin `{plugin}` failed to check this: {type(e).__name__}: {e}", path)
            return None

    def _unknown_scheme(self, kind: Kind, url: str, path: Place) -> None:
        scheme = url.partition("://")[0]
        known = sorted({s for offer in self._registry.offers(kind) for s in offer.component.schemes})
        remedy = f"known: {', '.join(f'{s}://' for s in known)}" if known else "write the component's name"
        if self._report.is_secret(path):
            self._report.fault("no component takes this URL", path, remedy)
        else:
            self._report.fault(f"no {kind.replace('_', ' ')} takes `{scheme}://` URLs", path, remedy)


_ADDRESS = re.compile(
    r"(localhost|\[[0-9a-fA-F:.]+\]|[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+)(:\d+)?(/|$)|[A-Za-z0-9-]+:\d+(/|$)"
)
"""A host, or a host with a port, and perhaps a path: what a URL is without its scheme."""
_CONTAINERS = (ComponentRef, BaseModel, dict, list, tuple)
_adapter = cache(TypeAdapter[Any])
