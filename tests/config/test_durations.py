"""ISO 8601 durations."""

from __future__ import annotations

from fractions import Fraction

import pytest
from gateway_knative.durations import seconds
from hypothesis import given
from hypothesis import strategies as st

UNITS = (("W", 604_800), ("D", 86_400), ("H", 3600), ("M", 60), ("S", 1))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT0.2S", 0.2),
        ("PT0,2S", 0.2),
        ("PT10S", 10),
        ("PT1M30S", 90),
        ("PT1.5M", 90),
        ("P1DT12H", 129_600),
        ("P2W", 1_209_600),
        ("P0Y0M0DT1S", 1),
        ("PT0S", 0),
    ],
)
def test_a_duration_in_seconds(text: str, expected: float) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "P", "PT", "P1DT", "1S", "PT1", "T1S", "P1S", "PT1S1M", "PT1M1M", "PT.5S", "PT1.S", "PT1e3S", "PT1_0S",
     "-PT1S", "PT-1S", "PT+1S", "pt1s", " PT1S", "PT1S\n", "PT١S", "P1Y", "P1M", "PT1.5M1S",
     "PT" + "9" * 100 + "S", "0.2", "1s", "2007-03-01T13:00:00Z/P1DT2H"],
)  # fmt: skip
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        seconds(text)


@given(
    numbers=st.lists(st.none() | st.integers(0, 99_999), min_size=5, max_size=5).filter(lambda n: n != [None] * 5),
    fraction=st.none() | st.tuples(st.sampled_from(".,"), st.text("0123456789", min_size=1, max_size=6)),
)
def test_a_duration_is_the_sum_of_its_units(numbers: list[int | None], fraction: tuple[str, str] | None) -> None:
    last = max(i for i, n in enumerate(numbers) if n is not None)
    text, total = "P", Fraction(0)
    for i, (number, (letter, size)) in enumerate(zip(numbers, UNITS, strict=True)):
        if number is None:
            continue
        amount, written = Fraction(number), str(number)
        if fraction is not None and i == last:
            written += "".join(fraction)
            amount = Fraction(written.replace(",", "."))
        if i > 1 and "T" not in text:
            text += "T"
        text += written + letter
        total += amount * size
    assert seconds(text) == float(total)
