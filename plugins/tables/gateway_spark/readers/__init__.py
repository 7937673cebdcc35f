"""Reads events into Spark: the embedded log with our data source, a Kafka channel with Spark's own."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from ..job import KAFKA, Job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from .kafka import AnyRows, PlainRows

SAMPLE_EVERY = 100


def events(job: Job, spark: SparkSession) -> DataFrame:
    """The stream of events: the columns of `schema.DDL`, then `fault`: why a row is not an event (its columns then hold
    what is known: position, key, bytes), or null. Only events that match the trigger's filter; rows that are not events
    are all included."""
    from . import kafka, log

    if job.channel == KAFKA:
        return kafka.AnyRows(*_filter(job)).of(kafka.records(job, spark))
    return log.events(job, spark)


class KafkaBatches:
    """The events of a Kafka channel, converted batch by batch instead of on the stream. Then a batch can be read as if
    all its records were plain, in half of the time.

    Whether they are is determined at run time: some records of the first batch are checked; if a batch fails because of
    a record that is not plain, it is read again at once by the general reader. So are the batches after it; every
    hundredth of them is checked again.
    """

    def __init__(self, job: Job) -> None:
        from .filters_sql import is_sql

        self._filter = _filter(job)
        self._may_be_plain = is_sql(*self._filter)
        self._reads_plain = False
        self._next_look = 0

    def each(self, records: DataFrame, number: int, write: Callable[[DataFrame, bool], None]) -> None:
        """Passes the batch's events, as in `events`, to `write`; perhaps twice, if the first call failed. The flag says
        whether they are known to be good: then no row has a fault (and evaluating one may fail), and their number is
        the one that Spark reports."""
        from . import kafka

        needs_sample = self._may_be_plain and not self._reads_plain and number >= self._next_look
        if needs_sample:
            self._next_look = number + SAMPLE_EVERY
            self._reads_plain = self._plain.may_be(records)
        if self._reads_plain:
            try:
                write(self._plain.of(records), not needs_sample and not any(self._filter))
            except Exception as e:
                if kafka.NOT_PLAIN not in str(e):
                    raise
                self._reads_plain, self._next_look = False, number + SAMPLE_EVERY
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
