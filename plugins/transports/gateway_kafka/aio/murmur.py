"""The partition of a key, computed as in Kafka's Java client, so that all producers of a topic agree."""

from __future__ import annotations

from struct import Struct

_M = 0x5BD1E995
_ALL = 0xFFFFFFFF
_WORDS = [Struct(f"<{n}I").unpack_from for n in range(65)]


def murmur2(data: bytes) -> int:
    """The 32-bit hash of `org.apache.kafka.common.utils.Utils.murmur2`, unsigned."""
    length = len(data)
    words = length >> 2
    h = 0x9747B28C ^ length
    for k in (_WORDS[words] if words < 65 else Struct(f"<{words}I").unpack_from)(data):
        k = k * _M & _ALL
        h = (h * _M ^ (k ^ k >> 24) * _M) & _ALL
    rest = length & 3
    if rest:
        h = (h ^ int.from_bytes(data[-rest:], "little")) * _M & _ALL
    h = (h ^ h >> 13) * _M & _ALL
    return h ^ h >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key in a topic with this many partitions."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
