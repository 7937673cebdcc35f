"""Reads records whose header names are not UTF-8. Kafka accepts them, but aiokafka raises an error on every attempt, so
one such record would block its partition forever. Invalid bytes become U+FFFD."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatch, _DefaultRecordBatchPy
from aiokafka.record.memory_records import MemoryRecords, _MemoryRecordsPy

from .rebound import rebind


def read_leniently(consumer: Any) -> None:
    """Makes an `AIOKafkaConsumer` that has started, but has no partitions yet, read this way."""
    rebind(consumer._fetcher, "_proc_fetch_request", MemoryRecords=LenientRecords)


class LenientRecords:
    """Replaces aiokafka's `MemoryRecords`. aiokafka's C code reads a batch; if that fails, the batch is read again in
    Python."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._records = MemoryRecords(raw)
        self._count = 0
        self.has_next = self._records.has_next
        self.size_in_bytes = self._records.size_in_bytes

    def next_batch(self) -> Any:
        batch = self._records.next_batch()
        number, self._count = self._count, self._count + 1
        return _Batch(batch, self._raw, number) if isinstance(batch, DefaultRecordBatch) else batch


class _Batch:
    def __init__(self, batch: Any, raw: bytes, number: int) -> None:
        self._batch = batch
        self._raw = raw
        self._number = number

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __next__(self) -> Any:
        return next(self._batch)

    def __iter__(self) -> Iterator[Any]:
        try:
            return iter(list(self._batch))
        except UnicodeDecodeError:
            return iter(list(self._again()))

    def _again(self) -> Any:
        records = _MemoryRecordsPy(self._raw)
        for _ in range(self._number):
            records.next_batch()
        batch = _DefaultRecordBatchPy(bytearray(records._next_slice))
        batch._maybe_uncompress()
        batch._buffer = _Lenient(batch._buffer)
        return batch


class _Lenient(bytearray):
    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        return _Lenient(found) if isinstance(found, bytearray) else found

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return super().decode(encoding, "replace")
