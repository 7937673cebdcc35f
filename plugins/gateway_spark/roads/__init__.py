"""How events come into Spark: from the embedded log by our data source, from a Kafka channel by Spark's own."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from ..job import KAFKA, Job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from .kafka import AnyRows, PlainRows

LOOK_EVERY = 100


def events(job: Job, spark: SparkSession) -> DataFrame:
    """The stream of events: the columns of `schema.DDL`, then `fault`: why a row is no event (its columns then hold
    what there is of it: place, key, bytes), null for events. Only events that the trigger's filter lets through; rows
    that are no event all come."""
    from . import kafka, log

    if job.road == KAFKA:
        return kafka.AnyRows(*_filter(job)).of(kafka.records(job, spark))
    return log.events(job, spark)


class KafkaBatches:
    """The events of a Kafka channel, made of the records of each batch, not of the stream: then a batch can be read as
    if all its records were plain, for half of the work.

    Whether they are is found out: some of the first batch of a run are looked at, and where a batch fails for one that
    is not, it is read again at once, whatever its records are like. So are those after it; each hundredth of them is
    looked at anew.
    """

    def __init__(self, job: Job) -> None:
        from .filters_sql import is_sql

        self._filter = _filter(job)
        self._may_be_plain = is_sql(*self._filter)
        self._reads_plain = False
        self._next_look = 0

    def each(self, records: DataFrame, number: int, write: Callable[[DataFrame, bool], None]) -> None:
        """Gives the batch's events, as `events` has them, to `write`; perhaps twice, where the first time failed. With
        them goes whether they are known to be good: then no row has a fault (asking for one may fail), and they are as
        many as Spark says that were read."""
        from . import kafka

        looks = self._may_be_plain and not self._reads_plain and number >= self._next_look
        if looks:
            self._next_look = number + LOOK_EVERY
            self._reads_plain = self._plain.may_be(records)
        if self._reads_plain:
            try:
                write(self._plain.of(records), not looks and not any(self._filter))
            except Exception as e:
                if kafka.NOT_PLAIN not in str(e):
                    raise
                self._reads_plain, self._next_look = False, number + LOOK_EVERY
            else:
                return
        write(self._any.of(records), False)

    @cached_property
    def _plain(self) -> PlainRows:
        from .kafka import PlainRows

        return PlainRows(*self._filter)

    @cached_property
    def _any(self) -> AnyRows:
        from .kafka import AnyRows

        return AnyRows(*self._filter)


def _filter(job: Job) -> tuple[str, str]:
    return job.options.get("filters", ""), job.options.get("attributes", "")
