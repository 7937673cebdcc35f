"""The codec's options."""

from __future__ import annotations

from pydantic import SecretStr

from gateway_core.component import Config


class GitHubConfig(Config):
    """GitHub webhooks in, CloudEvents out."""

    secret: SecretStr | None = None
    """The webhook's secret. With it, a delivery whose `X-Hub-Signature-256` is missing or wrong is refused (401)."""
