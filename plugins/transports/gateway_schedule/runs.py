"""The planned times of a schedule. All times are Unix seconds; whole ones, because no schedule is finer.

DST, for `cron` (as Debian's cron does it): a run at a fixed time of day that the clock skips in spring is planned for
the first moment after the gap; one that the clock shows twice in autumn is planned for the first time only. A run whose
minute or hour begins with `*` is planned by elapsed time: nothing in the hour that is skipped, twice in the one that
comes twice. So is one of six fields. `every` is elapsed time: DST does not move it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import islice
from zoneinfo import ZoneInfo

Next = Callable[[int], int | None]
"""The first planned time after this one; None if there is none within fifty years."""

_HORIZONS_S = (60, 3600, 86_400, 40 * 86_400, 400 * 86_400, 3000 * 86_400)


def of_cron(expression: str, zone: ZoneInfo) -> Next:
    """Raises `ValueError` if it is no cron expression."""
    from cronsim import CronSim, CronSimError

    def following(after: int) -> int | None:
        for found in CronSim(expression, datetime.fromtimestamp(after, UTC).astimezone(zone)):
            planned = int(found.timestamp())
            if planned > after:  # the hour that comes twice begins again
                return planned
        return None

    try:
        CronSim(expression, datetime(2026, 1, 1, tzinfo=zone))
    except CronSimError as e:
        text = str(e)
        raise ValueError(f"{text[:1].lower()}{text[1:]}") from e
    return following


def of_period(period_s: int, zone: ZoneInfo) -> Next:
    """Multiples of a period, counted from the midnight with which 1970 began in the zone."""
    start = int(datetime(1970, 1, 1, tzinfo=zone).timestamp())
    return lambda after: start + ((after - start) // period_s + 1) * period_s


def upcoming(following: Next, after: int, count: int) -> list[int]:
    """The next planned times."""
    return list(islice(_between(following, after, None), count))


def due(following: Next, after: int, now: int) -> Iterator[int]:
    """The planned times after one, up to now."""
    return _between(following, after, now)


def last_due(following: Next, after: int, now: int) -> int | None:
    """The last planned time after one, up to now. It costs little however many there are."""
    for horizon in _HORIZONS_S:
        begin = max(after, now - horizon)
        found = None
        for found in _between(following, begin, now):  # noqa: B007
            pass
        if found is not None or begin == after:
            return found
    found = None
    for found in _between(following, after, now):  # noqa: B007
        pass
    return found


def _between(following: Next, after: int, end: int | None) -> Iterator[int]:
    planned = following(after)
    while planned is not None and (end is None or planned <= end):
        yield planned
        planned = following(planned)
