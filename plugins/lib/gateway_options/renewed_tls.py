"""A TLS context that follows its files, which are renewed under the same names (cert-manager, certbot, SPIFFE).

Libraries take a context once and keep it. Each of their connections begins with `wrap_bio` or `wrap_socket`, and these
use the newest files. Connections that are open keep what they have.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Self

from .renewed import Renewed


class RenewedContext(ssl.SSLContext):
    """The newest context that `make` made of the files."""

    def __new__(cls, make: Callable[[], ssl.SSLContext], files: Sequence[Path], owner: str) -> Self:
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, make: Callable[[], ssl.SSLContext], files: Sequence[Path], owner: str) -> None:
        """Raises what `make` raises. `owner` is named in the log."""
        self._make = make
        self._protocols: list[str] = []
        self._renewed = Renewed(files, self._made, owner, "certificates")
        # what a library may read of its context
        inner = self._renewed.current()
        self.check_hostname = inner.check_hostname
        self.verify_mode = inner.verify_mode
        self.minimum_version = inner.minimum_version

    def set_alpn_protocols(self, alpn_protocols: Iterable[str]) -> None:
        self._protocols = list(alpn_protocols)
        self._renewed.current().set_alpn_protocols(self._protocols)

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        return self._renewed.current().wrap_bio(*args, **options)

    def wrap_socket(self, *args: Any, **options: Any) -> ssl.SSLSocket:
        return self._renewed.current().wrap_socket(*args, **options)

    def _made(self) -> ssl.SSLContext:
        made = self._make()
        if self._protocols:
            made.set_alpn_protocols(self._protocols)
        return made
