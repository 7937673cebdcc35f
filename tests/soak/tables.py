"""Compares the Spark tables of a soak with its ledger: each event once for each time that the channel has it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.soak.traffic import body_of, kind_of, read_source
from tests.soak.world import World
from tests.spark.table_files import delta_files, parquet_files

_COLUMNS = ["shard", "position", "id", "source", "data"]


@dataclass(slots=True)
class TableVerdict:
    """`rows` in the table for `wanted` accepted events. `missing` of these; rows of one position that are there again
    (`twice`); rows whose bytes are `wrong`; rows of events that the channel has several times, because the sender or
    the Kafka source repeated them (`copies`), and such without that reason (`unexplained`); and `quarantined`."""

    wanted: int = 0
    rows: int = 0
    missing: int = 0
    twice: int = 0
    wrong: int = 0
    copies: int = 0
    unexplained: int = 0
    quarantined: int = 0

    @property
    def kept(self) -> bool:
        """Whether the table is as promised."""
        return not (self.missing or self.twice or self.wrong or self.unexplained or self.quarantined)


def check_table(world: World, table: str) -> TableVerdict:
    """Reads all of a table, without Spark."""
    verdict = TableVerdict()
    accounts = {route.name: world.accounts[route.name] for route in world.routes if route.broker == table}
    counts = {name: bytearray(account.numbered) for name, account in accounts.items()}
    places: dict[int, set[int]] = defaultdict(set)
    for file in _files(world.table_path(table), world.table_format(table)):
        for row in _rows(file):
            verdict.rows += 1
            seen = places[row["shard"]]
            if row["position"] in seen:
                verdict.twice += 1
                continue
            seen.add(row["position"])
            route, number = read_source(row["source"]), int(row["id"])
            if route not in counts or kind_of(number % 5) != "table" or row["data"] != body_of(number):
                verdict.wrong += 1
                continue
            before = counts[route][number]
            counts[route][number] = min(255, before + 1)
            if before:
                verdict.copies += 1
                verdict.unexplained += route != "topic" and accounts[route].attempts.get(number) < 2
    for name, account in accounts.items():
        accepted = account.accepted.map
        for number in range(0, account.numbered, 5):
            if accepted[number]:
                verdict.wanted += 1
                verdict.missing += not counts[name][number]
    quarantine = Path(f"{world.table_path(table)}_quarantine")
    if quarantine.exists():
        files = _files(quarantine, world.table_format(table))
        verdict.quarantined = sum(pq.ParquetFile(file).metadata.num_rows for file in files)
    return verdict


def _files(table: Path, format: str) -> list[Path]:
    return (parquet_files if format == "parquet" else delta_files)(table)


def _rows(file: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.ParquetFile(file).read(columns=_COLUMNS).to_pylist()
    return rows
