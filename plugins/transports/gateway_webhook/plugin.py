"""The plugin's hook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway_core.contract.component import BuildContext, Component
from gateway_core.contract.hookspecs import hookimpl

if TYPE_CHECKING:
    from pydantic import BaseModel

    from gateway_core.contract.interfaces import Codec

    from .config import WebhookConfig


def _build(config: WebhookConfig, context: BuildContext) -> Codec:
    from .codec import build

    return build(config, context)


def _config() -> type[BaseModel]:
    from .config import WebhookConfig

    return WebhookConfig


@hookimpl
def gateway_codecs() -> list[Component]:

    summary = "Webhooks that are no CloudEvents: a POST becomes an event."
    return [Component("webhook", summary, _config, _build)]
