"""A TLS context that follows its files, which are renewed under the same names (cert-manager, certbot, SPIFFE).

Libraries take a context once and keep it. Each of their connections begins with `wrap_bio` or `wrap_socket`, and these
use the newest files. Connections that are open keep what they have.
"""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Self

from gateway_core.contract.one_line import one_line

log = logging.getLogger("tidegate.tls")

CHECK_S = 1.0
"""The files are looked at when a connection begins, at most once in this many seconds."""

_Stamp = tuple[int, int, int] | None


class RenewedContext(ssl.SSLContext):
    """The context that `make` returned last; it is called again when one of the files has changed. Files that can't
    be used change nothing: the previous context stays in use, and the log gets one line."""

    def __new__(cls, make: Callable[[], ssl.SSLContext], files: Sequence[Path], owner: str) -> Self:
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, make: Callable[[], ssl.SSLContext], files: Sequence[Path], owner: str) -> None:
        """Raises what `make` raises. `owner` is named in the log."""
        self._make = make
        self._files = files
        self._owner = owner
        self._protocols: list[str] | None = None
        self._stamps = [_stamp(file) for file in files]
        self._next_look = time.monotonic() + CHECK_S
        self._inner = make()
        # what a library may read of its context
        self.check_hostname = self._inner.check_hostname
        self.verify_mode = self._inner.verify_mode
        self.minimum_version = self._inner.minimum_version

    def set_alpn_protocols(self, alpn_protocols: Iterable[str]) -> None:
        self._protocols = list(alpn_protocols)
        self._inner.set_alpn_protocols(self._protocols)

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        return self._newest().wrap_bio(*args, **options)

    def wrap_socket(self, *args: Any, **options: Any) -> ssl.SSLSocket:
        return self._newest().wrap_socket(*args, **options)

    def _newest(self) -> ssl.SSLContext:
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + CHECK_S
            stamps = [_stamp(file) for file in self._files]
            if stamps != self._stamps:
                self._stamps = stamps  # taken before the files are read: a change in between is seen next time
                self._renew()
        return self._inner

    def _renew(self) -> None:
        try:
            made = self._make()
        except OSError as e:
            text = "%s: the TLS files have changed and can't be used, the previous ones stay in use: %s"
            log.warning(text, self._owner, one_line(e))
            return
        if self._protocols is not None:
            made.set_alpn_protocols(self._protocols)
        self._inner = made
        log.info("%s: the TLS files have changed, new connections use them", self._owner)


def _stamp(file: Path) -> _Stamp:
    """What changes with a file; None if it isn't there."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
