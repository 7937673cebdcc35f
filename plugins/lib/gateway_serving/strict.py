"""What h11 reads leniently, and others might read in another way: line ends, folded headers, chunk extensions.

RFC 9112 lets a server take a lone LF for a line end, and h11 takes more: blanks and any bytes behind a chunk's size. A
proxy in front that reads the same bytes in another way lets a second request pass as a part of the first (section
11.2). So each byte that h11 interprets as a line is checked before.
"""

from __future__ import annotations

import re

from .refusal import RequestRefused

_END = b"\r\n\r\n"
# a lone LF or CR, a folded line, a control character
_BAD = re.compile(rb"(?<!\r)\n|\r(?!\n|\Z)|\r\n[\t ]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_SIZE = re.compile(
    rb"([0-9A-Fa-f]{1,16})"
    rb'(?:[\t ]*;(?:[\t !#-~\x80-\xff]|"(?:[\t !#-\[\]-~\x80-\xff]|\\[\t -~\x80-\xff])*")*)?\r\n'
)
_TRAILER = re.compile(rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~\x80-\xff]*)?\r\n")


class StrictLines:
    """The lines of one request. Feed `head` until it returns data, then `chunks` if the body is chunked."""

    def __init__(self) -> None:
        self._seen = b""  # the end of the head that was checked
        self._line = bytearray()
        self._skip = 0
        self._trailers = self._done = False

    def head(self, data: bytes) -> bytes | None:
        """Checks more of the head. Returns the data behind it, None before its end. Raises `RequestRefused`."""
        seen = self._seen + data
        end = seen.find(_END)
        stop = len(seen) if end < 0 else end + len(_END)
        if _BAD.search(seen, max(0, len(self._seen) - 2), stop):
            raise RequestRefused(400, "Lines end with CR LF, and have no control characters and no folded values.")
        self._seen = seen[-3:]
        return None if end < 0 else seen[stop:]

    def chunks(self, data: bytes) -> None:
        """Checks more of a chunked body, and ignores what is behind it. Raises `RequestRefused`."""
        at = 0
        while at < len(data) and not self._done:
            if self._skip:
                step = min(self._skip, len(data) - at)
                self._skip -= step
                at += step
                continue
            end = data.find(b"\n", at) + 1
            if not end:
                self._line += data[at:]  # h11 limits its length
                return
            line, at = bytes(self._line) + data[at:end], end
            self._line.clear()
            self._check(line)

    def _check(self, line: bytes) -> None:
        if self._trailers:
            if not _TRAILER.fullmatch(line):
                raise RequestRefused(400, "A trailer of the chunked body is malformed.")
            self._done = line == b"\r\n"
        elif (found := _SIZE.fullmatch(line)) is None:
            raise RequestRefused(400, "The size or the extensions of a chunk are malformed.")
        elif size := int(found[1], 16):
            self._skip = size + 2  # h11 checks the line end behind the data
        else:
            self._trailers = True
