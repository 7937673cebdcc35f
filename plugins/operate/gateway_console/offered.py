"""The figures that services add to the overview (`OffersFigures`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway_api.figures import Figure, OffersFigures

from gateway_core.contract.component_errors import text_of_error
from gateway_core.contract.services import RunningService
from gateway_core.contract.status import GatewayStatus, Unreported

LONGEST = 60
"""How many characters of a name or value are shown."""


def cut(text: str, most: int) -> str:
    """The text in one line of at most so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


@dataclass(frozen=True, slots=True)
class Offered:
    """The figures by key, and the services that raised instead."""

    figures: Mapping[str, Figure] = field(default_factory=dict)
    failed: tuple[Unreported, ...] = ()


def offered(services: Mapping[str, RunningService], status: GatewayStatus) -> Offered:
    """What all services add. One that raises, or returns no figures, costs only its own."""
    found: dict[str, Figure] = {}
    failed: list[Unreported] = []
    for name, service in services.items():
        if isinstance(service, OffersFigures):
            try:
                found |= {f"figure {name} {each.name}": _shown(each) for each in service.figures(status)}
            except Exception as e:
                failed.append(Unreported(f"figures of service {name}", text_of_error(e)))
    return Offered(found, tuple(failed))


def _shown(figure: Figure) -> Figure:
    """The figure with texts that fit, and a link that can't leave this server."""
    path = figure.path if figure.path.startswith("/") and not figure.path.startswith(("//", "/\\")) else ""
    kind = figure.kind if figure.kind in _KINDS else ""
    return Figure(cut(figure.name, LONGEST), cut(figure.text, LONGEST), kind, path)


_KINDS = ("good", "warn", "bad")
