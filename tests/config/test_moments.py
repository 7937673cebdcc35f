"""Times and durations as they are written and read, in configs, events and commands alike."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from gateway_schedule.config import ScheduleConfig
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from gateway_core.contract.config_model import TriggerConfig
from gateway_core.contract.deduplicate_config import DeduplicateConfig
from gateway_core.contract.durations import duration_ns, is_duration, seconds_of
from gateway_core.contract.moments import MOST_NS, moment_ns, stamped, time_ns_of, written

pytestmark = pytest.mark.spec("AGAIN-27")

SECOND = 1_000_000_000
MOMENTS = st.integers(0, MOST_NS)


@given(MOMENTS)
@example(0)
@example(MOST_NS)
def test_what_is_written_is_read_back_to_the_nanosecond(ns: int) -> None:
    assert time_ns_of(written(ns)) == time_ns_of(stamped(ns)) == ns
    assert len(written(ns)) in (20, 24, 27, 30)


@given(MOMENTS, MOMENTS)
def test_stamps_are_in_the_order_of_their_times(one: int, other: int) -> None:
    assert (stamped(one) < stamped(other)) == (one < other)


@given(MOMENTS, st.integers(-14 * 60, 14 * 60), st.text("0123456789", max_size=6), st.sampled_from("Tt "))
def test_a_time_of_any_zone_is_exact_and_never_early(ns: int, offset: int, finer: str, between: str) -> None:
    """Against the calendar of the standard library."""
    zone = f"{'-' if offset < 0 else '+'}{abs(offset) // 60:02d}:{abs(offset) % 60:02d}"
    local = datetime(1970, 1, 1) + timedelta(seconds=ns // SECOND, minutes=offset)
    text = f"{local.isoformat(between)}.{ns % SECOND:09d}{finer}{zone}"
    assert time_ns_of(text) == min(MOST_NS, ns + bool(finer.strip("0")))


@given(st.datetimes(datetime(1970, 1, 1), datetime(2262, 1, 1)))
def test_second_60_is_the_first_of_the_next_minute(moment: datetime) -> None:
    text = moment.isoformat(timespec="seconds")[:17]
    minute = time_ns_of(f"{text}00Z")
    assert time_ns_of(f"{text}60Z") == minute + 60 * SECOND
    assert time_ns_of(f"{text}60.5Z") == minute + 60 * SECOND + SECOND // 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        *((text, "is not a time") for text in ("noon", "", "2026-11-28", "2026-11-28T08:00Z", "20261128T080000Z")),
        *((text, "is not a time") for text in ("2026-W48-6T08:00:00Z", "2026-11-28T08:00:00.Z")),
        *((text, "is not a time") for text in ("٢026-11-28T08:00:00Z", "2026-11-28_08:00:00Z")),
        *((text, "is not a time") for text in ("2026-11-28T08:00:00Z ", "2026-11-28T08:00:00+01", "1" * 1000)),
        ("2026-11-28T08:00:00", "has no time zone"),
        *((text, "no day of the calendar") for text in ("2026-02-30T08:00:00Z", "0000-01-01T00:00:00Z")),
        *((text, "no time of the day") for text in ("2026-11-28T24:00:00Z", "2026-11-28T08:60:00Z")),
        *((text, "no time of the day") for text in ("2026-11-28T08:00:61Z", "2026-11-28T08:00:00+24:00")),
        ("2026-11-28T08:00:00+01:60", "no time of the day"),
    ],
)
def test_what_is_no_time(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        time_ns_of(text)


def test_times_out_of_reach_are_at_its_ends() -> None:
    assert (time_ns_of("1969-12-31T23:59:59Z"), time_ns_of("9999-12-31T23:59:59Z")) == (0, MOST_NS)


UNITS = {"w": 604_800, "d": 86_400, "h": 3600, "m": 60, "s": 1}


@given(st.lists(st.integers(0, 999), min_size=5, max_size=5), st.integers(0, 999))
def test_both_forms_of_a_duration_are_the_same(numbers: list[int], ms: int) -> None:
    w, d, h, m, s = numbers
    ns = sum(n * unit for n, unit in zip(numbers, UNITS.values(), strict=True)) * SECOND + ms * 1_000_000
    for text in (f"{w}w{d}d{h}h{m}m{s}s{ms}ms", f"P{w}W{d}DT{h}H{m}M{s}.{ms:03d}S"):
        assert is_duration(text)
        assert duration_ns(text) == ns


def test_a_moment_is_a_time_or_so_long_ago() -> None:
    now = time_ns_of("2026-11-28T08:00:00Z")
    assert moment_ns("now", now) == moment_ns("2026-11-28T09:00:00+01:00", 0) == now
    assert moment_ns("2h", now) == moment_ns("PT2H", now) == time_ns_of("2026-11-28T06:00:00Z")


@pytest.mark.parametrize("text", ["2h", "90s", "1h30m", "500ms", "PT10M", "P1D", "PT0.000000001S"])
def test_a_duration(text: str) -> None:
    assert seconds_of(text) == duration_ns(text) / 1e9 > 0


@pytest.mark.parametrize(
    "text",
    [
        *("", "P", "PT", "P1DT", "1D", "P1M", "P1Y", "PT-1S", "PT1.S"),
        *("h", "2 h", "-2h", "1.5h", "200y", "٣h", "5w1x"),
    ],
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        duration_ns(text)


@pytest.mark.parametrize("text", ["0s", "PT0S", "99999w", "P99999W"])
def test_a_duration_that_is_nothing_or_too_long(text: str) -> None:
    with pytest.raises(ValueError, match="longer than a hundred years"):
        seconds_of(text)


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("PT1M30S", 90), (90, 90), ("90", 90), (" 1m30s ", 90)])
def test_every_option_takes_both_forms(text: str | int, seconds: int) -> None:
    trigger = {"subscriber": "http://127.0.0.1:9/", "delay": text}
    assert TriggerConfig.model_validate(trigger).delay == seconds
    assert DeduplicateConfig.model_validate({"window": text}).window == seconds
    assert ScheduleConfig.model_validate({"name": "s", "every": text, "event": {"type": "t"}}).every == seconds


@pytest.mark.parametrize("text", ["soon", "1 day", "366d", "P1M", -1])
def test_what_no_option_takes(text: str | int) -> None:
    with pytest.raises(ValidationError, match=r"is not a duration|less than or equal|greater than or equal"):
        TriggerConfig.model_validate({"subscriber": "http://127.0.0.1:9/", "delay": text})
