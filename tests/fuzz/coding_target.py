"""Bodies with a content coding: an input is the header's value, a line's end and the body."""

from __future__ import annotations

import gzip

from gateway_serving.content_coding import Headers, decoded

from gateway_core.contract.errors import Refused

LIMIT = 65_536


def check(data: bytes) -> None:
    """Raises where something does not hold."""
    coding, _, body = data.partition(b"\n")
    headers = [(b"content-encoding", coding), (b"content-length", b"%d" % len(body))]
    try:
        left, plain = decoded(headers, body, LIMIT)
    except Refused as e:
        refused = e
    else:
        _check_plain(coding, body, left, plain)
        return
    assert refused.status in (400, 413, 415)
    assert refused.rule
    assert 0 < len(refused.detail) < 500


def _check_plain(coding: bytes, body: bytes, left: Headers, plain: bytes) -> None:
    assert left == [(b"content-length", b"%d" % len(plain))]
    if coding.strip(b" \t,").lower() in (b"gzip", b"x-gzip") and body:
        assert len(plain) <= LIMIT
        assert plain == gzip.decompress(body)
    else:
        assert plain == body


SEEDS = [
    b"gzip\n" + gzip.compress(b"hello", mtime=0),
    b"gzip\n" + gzip.compress(b"hello", mtime=0) * 3,
    b"x-gzip\n" + gzip.compress(bytes(100_000), mtime=0),
    b"gzip\n" + gzip.compress(b"", mtime=0) + bytes(9),
    b"identity\nabc",
    b"br\nabc",
    b"\nabc",
    b"gzip, gzip\nabc",
]
WORDS = [b"gzip", b"x-gzip", b"identity", b", ", b"\x1f\x8b\x08", b"\n"]
