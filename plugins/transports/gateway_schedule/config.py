"""Options of the source `schedule`."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo, available_timezones

from pydantic import Field, field_validator, model_validator

from gateway_core.contract.attribute_names import AttributeName
from gateway_core.contract.component import Config
from gateway_core.contract.config_model import Name
from gateway_core.contract.durations import AS_SECONDS, YEAR_S
from gateway_core.contract.faults import near

from .runs import Next, of_cron, of_period, upcoming

SHOWN = 10
"""How many of the next runs are shown."""


class TemplateConfig(Config):
    """The event of each run. Its `id` is the schedule's name and the planned time, its `time` the planned time."""

    type: Annotated[str, Field(min_length=1)]
    """The attribute `type`."""
    source: str | None = None
    """The attribute `source`; by default `/schedules/NAME`."""
    subject: str | None = None
    """The attribute `subject`."""
    datacontenttype: str | None = None
    """The type of `data`. With another one than JSON, `data` is a text that is taken as it is."""
    data: Any = None
    """The data, as JSON; none by default."""
    extensions: dict[AttributeName, str] = {}
    """Further attributes."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if not self.is_json and self.data is not None and not isinstance(self.data, str):
            raise ValueError("`data` of this `datacontenttype` must be a text")
        if own := sorted({"specversion", "id", "time", "type", "source", "subject"} & set(self.extensions)):
            raise ValueError(f"`{own[0]}` is no extension")
        return self

    @property
    def is_json(self) -> bool:
        """Whether `data` is written as JSON."""
        kind = (self.datacontenttype or "application/json").partition(";")[0].strip().lower()
        return kind.endswith(("/json", "+json"))


class ScheduleConfig(Config):
    """Makes an event at each planned time."""

    name: Name
    """The schedule's name, part of each event's id and the name under which the last run is remembered."""
    cron: str | None = None
    """When it runs: minute, hour, day of month, month, day of week; or six fields, with the second first."""
    every: Annotated[int, AS_SECONDS, Field(ge=1, le=YEAR_S)] | None = None
    """Or: so far apart, in whole seconds or with a unit, like `15m`, `2h`; counted from the midnight with which 1970
    began in the time zone."""
    time_zone: str = "UTC"
    """The time zone of `cron` (IANA), such as `Europe/Berlin`."""
    missed: Literal["skip", "last", "all"] = "last"
    """What follows for runs that were planned while no gateway ran, or that are late because its clock was set: none of
    them, the last one, or all."""
    event: TemplateConfig
    """The event."""

    @field_validator("time_zone")
    @classmethod
    def _known(cls, value: str) -> str:
        known = available_timezones()
        if value not in known:
            remedy = near(value, known)
            raise ValueError(f"there is no time zone {value!r} here" + (f"; {remedy}" if remedy else ""))
        return value

    @model_validator(mode="after")
    def _runs(self) -> Self:
        if (self.cron is None) == (self.every is None):
            raise ValueError("set one of `cron` and `every`")
        # without its library the missing extra is what a check reports
        if self.cron is None or importlib.util.find_spec("cronsim") is not None:
            following = self.following()
            if following(1_767_225_600) is None:  # the beginning of 2026
                raise ValueError("`cron` names a time that never comes")
        return self

    def following(self) -> Next:
        """The schedule's planned times."""
        zone = ZoneInfo(self.time_zone)
        if self.cron is None:
            assert self.every is not None
            return of_period(self.every, zone)
        return of_cron(self.cron, zone)

    def outlook(self, now_s: float) -> Iterable[str]:
        """See `gateway_core.contract.capabilities.Foretelling`."""
        if self.cron is None or importlib.util.find_spec("cronsim") is not None:
            runs = upcoming(self.following(), int(now_s), SHOWN)
            yield f"schedule {self.name} runs at {', '.join(written(run, self.time_zone) for run in runs)}"


def written(planned: int, time_zone: str) -> str:
    """A planned time as people of that zone read it."""
    return datetime.fromtimestamp(planned, ZoneInfo(time_zone)).isoformat()


def stamp(planned: int) -> str:
    """A planned time in an event (RFC 3339, UTC)."""
    return datetime.fromtimestamp(planned, UTC).isoformat().replace("+00:00", "Z")
