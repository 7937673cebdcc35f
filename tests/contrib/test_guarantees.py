"""Capability cards: every shipped transport says what it promises."""

from __future__ import annotations

import pytest
from gateway_terminal.cards import card, card_lines

from gateway_core.contract.component import Guarantees
from gateway_core.contract.offer import Offer
from tests.installed import REGISTRY

OFFERS = [
    offer
    for kind in ("source", "sink", "channel", "dead_letter")
    for offer in REGISTRY.offers(kind)  # type: ignore[arg-type]
    if offer.kind == kind
]
TEXTS = ("acknowledged", "redelivery", "order", "back_pressure", "binding", "credentials")


def of(offer: Offer) -> Guarantees:
    assert offer.component.guarantees, f"{offer.kind} {offer.component.name}: declare its `guarantees`"
    return offer.component.guarantees


@pytest.mark.spec("PD-01")
def test_every_shipped_source_sink_and_channel_has_a_card() -> None:
    assert {o.kind for o in OFFERS} == {"source", "sink", "channel", "dead_letter"}
    assert {(o.kind, o.component.name) for o in OFFERS} >= {("source", "kafka"), ("sink", "spark"), ("channel", "log")}
    for offer in OFFERS:
        texts = [str(getattr(of(offer), name)) for name in TEXTS]
        assert all(texts), f'{offer.kind} {offer.component.name}: say something, or "none"'
        assert not [t for t in texts if "\n" in t or "  " in t]


def test_a_card_fits_the_terminal() -> None:
    for offer in OFFERS:
        lines = card_lines(of(offer), 60)
        assert all(len(line) <= 60 for line in lines if " " in line.strip())
        assert " ".join(" ".join(lines).split()).count(of(offer).acknowledged) == 1
        assert [heading for heading, _ in card(of(offer))][:3] == ["delivery", "acknowledged", "redelivery"]
