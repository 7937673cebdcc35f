"""The section `console` of a config: what the console hides, and from whom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gateway_api.roles import Role, may

from gateway_core.contract.component import Config
from gateway_core.contract.config_extension import ConfigFinding

if TYPE_CHECKING:
    from gateway_core.contract.config_model import GatewayConfig

SECTION = "console"
ENTRY = "hide"
HIDDEN = "(hidden)"


class HideConfig(Config):
    """What the console hides of events."""

    data: bool = False
    """Whether the data of events is hidden."""
    attributes: list[str] = []
    """Attributes whose values are hidden."""
    below: Role = "admin"
    """Whoever has a role below this one does not see what is hidden."""

    def hides_data(self, role: Role | None) -> bool:
        """Whether someone with this role does not see data."""
        return self.data and not may(role, self.below)

    def hides_attribute(self, attribute: str, role: Role | None) -> bool:
        """Whether someone with this role does not see an attribute's value."""
        return attribute in self.attributes and not may(role, self.below)

    def hides_some(self, role: Role | None) -> bool:
        """Whether there is anything that someone with this role does not see."""
        return (self.data or bool(self.attributes)) and not may(role, self.below)


def hidden(config: GatewayConfig) -> HideConfig:
    """What a config hides."""
    found: HideConfig = config.section(SECTION).get(ENTRY) or HideConfig()
    return found


def check(config: GatewayConfig) -> Iterator[ConfigFinding]:
    """Entries of the section that mean nothing."""
    for name in config.section(SECTION):
        if name != ENTRY:
            yield ConfigFinding(f"`{name}` means nothing here", (SECTION, name), f"write `{ENTRY}`")
