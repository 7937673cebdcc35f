"""Delta tables: a commit carries the query's id and the batch's number, as a transaction of the protocol."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..data.types import render
from ..job import Job
from .columns import grown, plain, struct_type
from .jvm import jvm_class, measured, measurements, query_id
from .mark import Extent, Mark, Owner, owner_of
from .table import WriteMode, must_append, taken

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_DELTA = "org.apache.spark.sql.delta"
# A stream commits often: a checkpoint of the log takes longer than a commit, and each commit is a file.
OWNER = "tidegate.owner"
"""The property of a table that says who fills it (`Owner.text`)."""
_EXTENT = "tidegate:"
"""How transaction ids begin that hold positions: `tidegate:QUERY:first|end:SHARD`, with the position as the version. So
a batch and the positions that it covers are one commit."""
PROPERTIES = {"delta.checkpointInterval": "50", "delta.logRetentionDuration": "interval 7 days"}


class DeltaTable:
    """A `Table`, written like Delta's own streaming sink, with its transaction id, so that a query can continue a table
    of that sink.

    A write through `DataFrame.write` would have the same effect, but would look up the table's last transaction for
    each batch, which makes Spark read the table's log again: three jobs. Here it is looked up once; `readTxn` still
    makes Delta reject the commit if another writer of the same query was faster.
    """

    def __init__(self, job: Job, spark: SparkSession, location: str) -> None:
        self.location = location
        self._job = job
        self._spark = spark
        self._last: int | None = None  # the query's last batch in the table, once it is known
        self._fits: tuple[str, Any] | None = None  # the table's schema, and a row schema that fits it
        self._none = jvm_class(spark, "scala.Option").empty()
        self._owner: tuple[str, Owner | None] = ("", None)  # as the table last had it
        self._written: dict[str, int] = {}  # the positions in the table

    def write(
        self,
        rows: DataFrame,
        batch: int,
        measures: Mapping[str, Column],
        mark: Mark | None = None,
        *,
        mode: WriteMode = WriteMode.APPEND,
        keys: Sequence[str] = (),
    ) -> dict[str, int] | None:
        """See `Table`."""
        must_append(mode, keys, self.location)
        query = query_id(self._spark, self._job.checkpoint)
        if self._last is None:
            self._last = self._begin().txnVersion(query) if is_table(self._spark, self.location) else -1
        if batch <= self._last:
            return None
        good = taken(measured(rows, measures))
        if self._job.cluster_by and self._job.partition_by:  # else OPTIMIZE does it
            good = good.sortWithinPartitions(*dict.fromkeys([*self._job.partition_by, *self._job.cluster_by]))
        txn = self._ready(good._jdf.schema(), mark)
        self._last = None  # after a failure it is looked up again
        self._commit(txn, good, query, batch, mark)
        self._last = batch
        return measurements(good, measures)

    def schema(self) -> StructType | None:
        """See `Table`."""
        found = read(self._spark, self.location)
        return None if found is None else found.schema

    def _begin(self) -> Any:
        return transaction(self._spark, self.location)

    def owner(self) -> Owner | None:
        """See `Table`."""
        return self._found_owner(self._begin()) if is_table(self._spark, self.location) else None

    def extent(self, query: str) -> Extent | None:
        """See `Table`."""
        first, end = ({}, {})  # type: tuple[dict[str, int], dict[str, int]]
        txn = self._begin()
        for name in self._transactions(txn):
            if name.startswith(f"{_EXTENT}{query}:"):
                part, shard = name.split(":")[2:]
                (first if part == "first" else end)[shard] = int(txn.txnVersion(name))
        return (first, end) if end else None

    def writer(self, query: str, planned: int) -> str:
        """See `Table`."""
        queries = [name for name in self._transactions(self._begin()) if not name.startswith(_EXTENT)]
        return query if query in queries else next(iter(queries), "")

    def begin(self, query: str) -> None:
        """See `Table`. Nothing: batches have the query's id."""

    def _transactions(self, txn: Any) -> list[str]:
        text = str(txn.snapshot().transactions().keys().mkString("\n"))
        return text.split("\n") if text else []

    def _found_owner(self, txn: Any) -> Owner | None:
        found = txn.metadata().configuration().get(OWNER)
        text = str(found.get()) if found.isDefined() else ""
        if text != self._owner[0]:
            self._owner = text, owner_of(text)
        return self._owner[1]

    def _own(self, txn: Any, owner: Owner) -> Any:
        """A transaction on the table once it belongs to this owner."""
        found = self._found_owner(txn)
        owner.check(found, self.location)
        if found == owner:
            return txn
        location, text = self.location.replace("`", "``"), _literal(owner.text())
        self._spark.sql(f"ALTER TABLE delta.`{location}` SET TBLPROPERTIES ('{OWNER}' = {text})")
        return self._begin()

    def _ready(self, jschema: Any, mark: Mark | None) -> Any:
        """A transaction on a table that has columns for these rows."""
        owner = mark.owner if mark else None
        if self._fits is None and not is_table(self._spark, self.location):
            self._create(jschema, owner)
        txn = self._begin()
        if owner is not None:
            txn = self._own(txn, owner)
        columns = txn.metadata().schemaString()
        if self._fits is not None and self._fits[0] == columns and self._fits[1].equals(jschema):
            return txn
        known = plain(json.loads(columns))
        new = grown(self.location, known, jschema)
        if new != known:
            empty = self._spark.createDataFrame([], struct_type(new))
            empty.write.format("delta").mode("append").option("mergeSchema", "true").save(self.location)
            txn = self._begin()
            columns = txn.metadata().schemaString()
        self._fits = columns, jschema
        return txn

    def _create(self, jschema: Any, owner: Owner | None) -> None:
        job = self._job
        columns = grown(self.location, plain({"type": "struct", "fields": []}), jschema)
        ddl = render(columns)
        layout = f" PARTITIONED BY ({_names(job.partition_by)})" if job.partition_by else ""
        if job.cluster_by and not job.partition_by:  # Delta does not support both
            layout = f" CLUSTER BY ({_names(job.cluster_by)})"
        owned = {OWNER: owner.text()} if owner else {}
        properties = ", ".join(f"'{k}' = {_literal(v)}" for k, v in {**PROPERTIES, **owned}.items())
        location = self.location.replace("`", "``")
        self._spark.sql(
            f"CREATE TABLE IF NOT EXISTS delta.`{location}` ({ddl}) USING delta{layout} TBLPROPERTIES ({properties})"
        )
        if not is_table(self._spark, self.location):  # Delta takes any folder with something in it for a table here
            empty = self._spark.createDataFrame([], struct_type(columns))
            writer = empty.write.format("delta").mode("append").options(**PROPERTIES)
            writer.partitionBy(*job.partition_by).save(self.location)
            if layout and not job.partition_by:
                self._spark.sql(f"ALTER TABLE delta.`{location}`{layout}")

    def _commit(self, txn: Any, good: DataFrame, query: str, batch: int, mark: Mark | None) -> None:
        spark, none = self._spark, self._none
        session: Any = spark._jsparkSession
        getattr(txn.readTxn(), "$plus$eq")(query)
        delta = jvm_class(spark, _DELTA)
        options = delta.DeltaOptions(jvm_class(spark, "PythonUtils").toScalaMap({}), session.sessionState().conf())
        files = txn.writeFiles(good._jdf, jvm_class(spark, "scala.Option").apply(options))
        done = delta.actions.SetTransaction(query, batch, none)
        mode = jvm_class(spark, "org.apache.spark.sql.streaming.OutputMode").Append()
        what = getattr(delta, "DeltaOperations$StreamingUpdate")(mode, query, batch, none)
        actions = getattr(files, "$plus$colon")(done)
        new = {name: at for name, at in _versions(query, mark).items() if self._written.get(name) != at}
        for name, at in new.items():
            actions = getattr(actions, "$plus$colon")(delta.actions.SetTransaction(name, at, none))
        txn.commit(actions, what)
        self._written |= new


def _versions(query: str, mark: Mark | None) -> dict[str, int]:
    """Transaction id -> position."""
    parts = {"first": mark.first, "end": mark.end} if mark else {}
    return {f"{_EXTENT}{query}:{part}:{shard}": at for part, each in parts.items() for shard, at in each.items()}


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def read(spark: SparkSession, location: str) -> DataFrame | None:
    """The rows of a table, or None if there is none."""
    return spark.read.format("delta").load(location) if is_table(spark, location) else None


def is_table(spark: SparkSession, location: str) -> bool:
    """Whether there is a Delta table. The folder of its log is not enough: who made it may have been killed before the
    first commit."""
    session: Any = spark._jsparkSession
    if not jvm_class(spark, "io.delta.tables.DeltaTable").isDeltaTable(session, location):
        return False
    return int(transaction(spark, location).readVersion()) >= 0


def transaction(spark: SparkSession, location: str) -> Any:
    """A transaction of Delta's on what is at this place now."""
    session: Any = spark._jsparkSession
    return jvm_class(spark, f"{_DELTA}.DeltaLog").forTable(session, location).startTransaction()


def quoted(column: str) -> str:
    """A column's name in SQL; a dot separates fields of a structure."""
    return ".".join(f"`{part.replace('`', '``')}`" for part in column.split("."))


def _names(columns: list[str]) -> str:
    return ", ".join(map(quoted, columns))
