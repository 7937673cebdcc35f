"""The checksum of a row: CRC-32 of everything that is delivered from it. It detects every single flipped bit."""

from __future__ import annotations

from zlib import crc32

PRIME = 4_294_967_291
"""The largest prime below 2^32: no single bit of a larger number is lost in the remainder."""


def checksum(
    position: int, received_ns: int, flags: int, key: bytes | None, attributes: bytes, data: bytes | None
) -> int:
    """Raises `TypeError` if a value has another type. `shard.sequence_rows` has the same lines, without the call."""
    total = crc32(attributes, (position + received_ns) % PRIME ^ flags)
    if data is not None:
        total = crc32(data, total ^ 1)  # no data differs from empty data
    if key is not None:
        total = crc32(key, total ^ 2)
    return total
