"""Iceberg tables: a snapshot carries the query's id and the batch's number, as properties of its summary."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..data.types import Type, fields, kind
from ..errors import SparkFault
from ..job import Job
from .columns import grown, plain
from .iceberg_location import IcebergLocation
from .jvm import query_id
from .mark import Extent, Mark, Owner, owner_of
from .table import WriteMode, must_append, taken

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

QUERY = "tidegate.query"
BATCH = "tidegate.batch"
LACKS = "tidegate.lacks"
"""The first two are in the summary of a snapshot. As table properties with the query's id appended, they are an
operator's decision about a batch whose snapshot may have expired: `tidegate.batch.ID` says that the table has it,
`tidegate.lacks.ID` that it does not."""
OWNER = "tidegate.owner"
FIRST, END = "tidegate.first", "tidegate.end"
"""In the summary of a snapshot: `Owner.text`, and the positions that the batch begins at and ends before, as JSON. The
owner is also a property of the table, which is there when the snapshots have expired."""
_ANY = "write.spark.accept-any-schema"  # a batch may lack columns, and fields of structures
PROPERTIES = {
    _ANY: "true",
    # the default for sorted tables scans the rows twice
    "write.distribution-mode": "none",
    # a stream commits often, and each commit writes a whole new file of metadata
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}


class IcebergTable:
    """A `Table`. The last batch is looked up once, among the snapshots; later appends know it."""

    def __init__(self, job: Job, spark: SparkSession, location: str) -> None:
        self.location = location
        self._job = job
        self._spark = spark
        self._at = IcebergLocation(spark, location)
        self._last: int | None = None  # the query's last batch in the table, once it is known
        self._fits: Any = None  # the schema of rows that the table has columns for
        self._options: dict[str, str] = {}
        self._kept = ""  # the text of the owner that is a property of the table

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
        from pyspark.sql import Observation

        query = query_id(self._spark, self._job.checkpoint)
        owner = mark.owner if mark else None
        if owner is not None:  # for each batch: a query that another gateway started may have taken the table over
            owner.check(self.owner(), self.location)
        if self._last is None:
            self._last = self._find(query, batch)
        if batch <= self._last:
            return None
        seen = Observation()
        if measures:
            rows = rows.observe(seen, *[c.alias(name) for name, c in measures.items()])
        good = taken(rows)
        self._ready(good._jdf.schema())
        marks = {f"snapshot-property.{QUERY}": query, f"snapshot-property.{BATCH}": str(batch)}
        self._last = None  # after a failure it is looked up again
        self._at.append(good, {**self._options, **marks, **_summary(mark)})
        if owner is not None:
            self._keep(owner)
        self._last = batch
        found = seen.get if measures else {}
        return {name: int(found.get(name) or 0) for name in measures}

    def schema(self) -> StructType | None:
        """See `Table`."""
        found = read(self._spark, self.location)
        return None if found is None else found.schema

    def owner(self) -> Owner | None:
        """See `Table`."""
        table = self._at.load()
        for found in _summaries(table):
            if OWNER in found:
                return owner_of(found[OWNER])
        return None if table is None else owner_of(table.properties().get(OWNER))

    def extent(self, query: str) -> Extent | None:
        """See `Table`."""
        for found in _summaries(self._at.load()):
            if found.get(QUERY) == query and END in found:
                return json.loads(found[FIRST]), json.loads(found[END])
        return None

    def writer(self, query: str, planned: int) -> str:
        """See `Table`."""
        queries = [found[QUERY] for found in _summaries(self._at.load()) if QUERY in found]
        return query if query in queries else next(iter(queries), "")

    def begin(self, query: str) -> None:
        """See `Table`. Nothing: batches have the query's id."""

    def _keep(self, owner: Owner) -> None:
        """Makes the owner a property. It is none of the batch's commit: if that fails, the owner is the one before."""
        text = owner.text()
        if text == self._kept:
            return
        table = self._at.load()
        if table.properties().get(OWNER) != text:
            table.updateProperties().set(OWNER, text).commit()
        self._kept = text

    def _find(self, query: str, batch: int) -> int:
        """The query's last batch in the table, or -1."""
        table = self._at.load()
        if table is None:
            return -1
        known = table.properties()
        if int(known.get(f"{BATCH}.{query}") or -1) >= batch:
            return batch
        oldest: Any = None
        snapshot = table.currentSnapshot()
        while snapshot is not None:
            summary = snapshot.summary()
            if summary.get(QUERY) == query:
                return int(summary.get(BATCH))
            oldest, parent = snapshot, snapshot.parentId()
            snapshot = None if parent is None else table.snapshot(parent)
        expired = oldest is not None and oldest.parentId() is not None
        if expired and known.get(f"{LACKS}.{query}") != str(batch):
            self._check_expired(oldest.timestampMillis(), query, batch)
        return -1

    def _check_expired(self, oldest_ms: int, query: str, batch: int) -> None:
        """Snapshots expire by age: the snapshot of this batch can only be gone if the batch is older than all
        snapshots."""
        path = self._at.jvm.org.apache.hadoop.fs.Path(self._job.checkpoint, f"offsets/{batch}")
        files = path.getFileSystem(self._at.hadoop_conf())
        if not files.exists(path) or files.getFileStatus(path).getModificationTime() >= oldest_ms:
            return
        raise SparkFault(
            f"batch {batch} was in progress when this query ended, and the snapshots of that time have expired in the "
            f"table {self.location}: check whether its rows are there, and set the table's property '{BATCH}.{query}' "
            f"(they are) or '{LACKS}.{query}' (they are not) to '{batch}'"
        )

    def _ready(self, jschema: Any) -> None:
        """Makes sure that the table has columns for these rows, and chooses how to write them."""
        if self._fits is not None and self._fits.equals(jschema):
            return
        convert = self._at.convert
        jtypes = convert(convert(jschema))  # Iceberg has fewer types: converts the types of the rows to those
        table = self._at.load()
        known = plain(_type(convert(table.schema())) if table else {"type": "struct", "fields": []})
        new = grown(self.location, known, jtypes)
        if table is None:
            table = self._create(new)
        elif new != known:
            table.updateSchema().unionByNameWith(self._at.schema(new)).commit()
        if table.properties().get(_ANY) != "true":  # the table was created elsewhere
            table.updateProperties().set(_ANY, "true").commit()
        self._options = _options(table, _type(jtypes))
        self._fits = jschema

    def _create(self, columns: Type) -> Any:
        iceberg, schema = self._at.jvm.org.apache.iceberg, self._at.schema(columns)
        spec, order = iceberg.PartitionSpec.builderFor(schema), iceberg.SortOrder.builderFor(schema)
        for name in self._job.partition_by:
            spec = spec.identity(name)
        for name in self._job.cluster_by:
            if _has(columns, name):
                order = order.asc(name)
        more = {"format-version": "3"} if _has_variant(columns) else {}
        return self._at.create(schema, spec.build(), order.build(), {**PROPERTIES, **more})


def read(spark: SparkSession, location: str) -> DataFrame | None:
    """The rows of a table, or None if there is none."""
    at = IcebergLocation(spark, location)
    return None if at.load() is None else at.read()


def _summaries(table: Any) -> Iterator[dict[str, str]]:
    """What a table's snapshots say of our batches, the newest first."""
    snapshot = None if table is None else table.currentSnapshot()
    while snapshot is not None:
        summary, parent = snapshot.summary(), snapshot.parentId()
        named = {name: summary.get(name) for name in (QUERY, BATCH, OWNER, FIRST, END)}
        yield {name: str(value) for name, value in named.items() if value is not None}
        snapshot = None if parent is None else table.snapshot(parent)


def _summary(mark: Mark | None) -> dict[str, str]:
    """The mark as options of a write."""
    if mark is None:
        return {}
    found = {FIRST: json.dumps(dict(mark.first)), END: json.dumps(dict(mark.end))}
    if mark.owner is not None:
        found[OWNER] = mark.owner.text()
    return {f"snapshot-property.{name}": text for name, text in found.items()}


def _options(table: Any, rows: Type) -> dict[str, str]:
    """How rows of a type are written to a table."""
    mode = table.properties().get("write.distribution-mode")
    chosen = {"check-ordering": "false", "distribution-mode": "hash" if mode == "hash" else "none"}
    schema = table.schema()
    sorted_by = [schema.findColumnName(field.sourceId()) for field in table.sortOrder().fields()]
    if not all(_has(rows, name) for name in sorted_by):  # Iceberg would sort by a column that the rows lack
        chosen |= {"use-table-distribution-and-ordering": "false", "fanout-enabled": "true"}
    return chosen


def _type(jschema: Any) -> Type:

    found: Type = json.loads(jschema.json())
    return found


def _has(of: Type, column: str) -> bool:
    """Whether there is such a column; a dot separates fields of a structure."""
    first, _, rest = column.partition(".")
    found = [f["type"] for f in fields(of) if f["name"].lower() == first.lower()]
    return bool(found) and (not rest or _has(found[0], rest))


def _has_variant(of: Type) -> bool:
    inner = [f["type"] for f in fields(of)]
    if isinstance(of, dict):
        inner += [of[part] for part in ("elementType", "valueType") if part in of]
    return kind(of) == "variant" or any(map(_has_variant, inner))
