"""Durations as ISO 8601 writes them (ISO 8601-1:2019, 5.5.2): `PT0.2S`, `PT1M30S`, `P1DT12H`."""

from __future__ import annotations

import re
from decimal import Decimal

_NUMBER = r"([0-9]+(?:[.,][0-9]+)?)"
_FORM = re.compile(
    rf"P(?:{_NUMBER}Y)?(?:{_NUMBER}M)?(?:{_NUMBER}W)?(?:{_NUMBER}D)?(?:T(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?"
)
_SECONDS = (0, 0, 604_800, 86_400, 3600, 60, 1)
_LONGEST = 64  # characters: far more than needed, and it bounds the work for very long numbers
FORM = "write it like `PT0.2S`, `PT30S` or `PT5M` (ISO 8601)"


def seconds(text: str) -> float:
    """The duration in seconds. Raises `ValueError` with what is wrong with the text.

    Weeks can be combined with other units, as in Knative. Only the last unit may have a fraction. Years and months have
    no fixed length, so only zero is accepted.
    """
    found = _FORM.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None or text[-1] in "PT":
        raise ValueError("isn't a duration")
    given = [(number, unit) for number, unit in zip(found.groups(), _SECONDS, strict=True) if number is not None]
    if any("." in number or "," in number for number, _ in given[:-1]):
        raise ValueError("has a fraction before its last unit")
    amounts = [(Decimal(number.replace(",", ".")), unit) for number, unit in given]
    if any(amount and not unit for amount, unit in amounts):
        raise ValueError("has years or months, which have no fixed length")
    return float(sum(amount * unit for amount, unit in amounts))
