"""The codec's options."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import SecretStr

from gateway_core.contract.component import Config


class GitHubConfig(Config):
    """GitHub webhooks in, CloudEvents out."""

    secret: SecretStr | None = None
    """The webhook's secret. With it, a delivery whose `X-Hub-Signature-256` is missing or wrong is refused (401).
    Without it anyone who knows the address can send deliveries in GitHub's name, and `tidegate check` warns of that."""

    def warnings(self) -> Iterable[tuple[tuple[str | int, ...], str, str]]:
        """See `Config`."""
        if self.secret is None or not self.secret.get_secret_value():
            text = "without a secret, anyone who knows the address can send deliveries in GitHub's name"
            yield (), text, "set the webhook's secret at GitHub, and `secret: ${secret:NAME}` here"
