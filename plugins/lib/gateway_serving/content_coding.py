"""Content codings of HTTP requests (RFC 9110 section 8.4): gzip is decoded, within a limit, and others are refused. An
event has no field for a coding, so encoded data would be passed on unlabelled.
"""

from __future__ import annotations

import zlib

from gateway_core.contract.errors import Refused

ACCEPTED = (b"accept-encoding", b"gzip")
"""The headers of a 415 response because of the coding (RFC 9110 section 15.5.16)."""

Headers = list[tuple[bytes, bytes]]

_GZIP = 31  # zlib's name for the gzip format with the largest window
_MOST_MEMBERS = 64  # a gzip file may have many; each needs a decoder of 40 kB
_RULE = "RFC 9110 section 8.4.1.3"


class UnknownCoding(Refused):
    """The body has an unsupported content coding; the response names the supported ones."""

    headers = (ACCEPTED,)

    def __init__(self, coding: bytes) -> None:
        detail = f"the content coding {coding[:100].decode('latin-1')!r} is not supported; send gzip, or none"
        super().__init__(detail, status=415, rule="RFC 9110 section 8.4")


def coding_of(headers: Headers) -> bytes:
    """The coding to decode, b"" for none. Raises `UnknownCoding`."""
    values = [value for name, value in headers if name == b"content-encoding"]
    coding = b",".join(values).strip(b" \t,").lower()
    if coding in (b"gzip", b"x-gzip"):
        return b"gzip"
    if coding in (b"", b"identity"):
        return b""
    raise UnknownCoding(coding)


def decoded(headers: Headers, body: bytes, limit: int) -> tuple[Headers, bytes]:
    """Headers and body without their content coding, with the new length. Header names are in lower case. Raises
    `Refused` if the body does not match its coding, or is longer than `limit` bytes when decoded."""
    if not any(name == b"content-encoding" for name, _ in headers):
        return headers, body
    if coding_of(headers) and body:
        body = gunzipped(body, limit)
    kept = [header for header in headers if header[0] != b"content-encoding"]
    return [(name, b"%d" % len(body) if name == b"content-length" else value) for name, value in kept], body


def gunzipped(data: bytes, limit: int) -> bytes:
    """The data of a gzip file. Raises `Refused` if it is none, or longer than `limit` bytes."""
    parts: list[bytes] = []
    size = 0
    try:
        for _ in range(_MOST_MEMBERS):
            decoder = zlib.decompressobj(_GZIP)
            part = decoder.decompress(data, limit - size + 1)  # 0 would mean no limit
            size += len(part)
            if size > limit:
                raise Refused(f"The body, decompressed, is longer than {limit} bytes.", status=413, rule=_RULE)
            if not decoder.eof:
                raise Refused("the gzip body is incomplete", rule=_RULE)
            parts.append(part)
            data = decoder.unused_data
            if not data.strip(b"\0"):
                return b"".join(parts)
    except zlib.error as e:
        raise Refused(f"the body is not gzip, although Content-Encoding says so: {e}", rule=_RULE) from e
    raise Refused(f"the gzip body has more than {_MOST_MEMBERS} members", rule=_RULE)
