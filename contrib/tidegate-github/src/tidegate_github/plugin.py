"""What the plugin offers."""

from __future__ import annotations

from gateway_core.contract.component import Component
from gateway_core.contract.hookspecs import hookimpl

from .codec import build
from .config import GitHubConfig


@hookimpl
def gateway_codecs() -> list[Component]:
    return [Component("github", "GitHub webhook deliveries as CloudEvents.", GitHubConfig, build)]
