"""Options of the authenticators."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from gateway_core.contract.component import Config
from gateway_core.contract.config_node import Place
from gateway_core.contract.needed_files import FileFault


def _header(text: str) -> str:
    name = text.lower()
    if name in ("authorization", "cookie", "host", "content-type", "content-length") or name.startswith("ce-"):
        raise ValueError(f"{text!r} is used for something else: write another name, such as x-api-key")
    return name


Header = Annotated[str, Field(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$"), AfterValidator(_header)]
"""A field name (RFC 9110 section 5.1), in lower case after validation."""


class ApiKeyConfig(Config):
    """Senders prove themselves with API keys, which `tidegate auth key` manages."""

    file: Path
    """The file of keys. It holds hashes only, and is read again when it changes."""
    header: Header = "x-api-key"
    """The header field that has the key."""
    bearer: bool = False
    """Whether `Authorization: Bearer KEY` works, too. Other bearer tokens are left to the other authenticators."""
    query: Annotated[str, Field(pattern=r"^[A-Za-z0-9._~-]{1,64}$")] | None = None
    """A query parameter that may have the key instead, for senders that can't set a header."""

    def file_faults(self) -> Iterator[FileFault]:
        """See `gateway_core.contract.needed_files.NeedsFiles`."""
        from .edited_file import BadFile, read_bytes
        from .keys import read_keys

        try:
            read_keys(read_bytes(self.file), self.file)
        except BadFile as e:
            yield FileFault("file", str(e), f"`tidegate auth key new NAME --file {self.file}` makes a key and the file")

    def warnings(self) -> Iterator[tuple[Place, str, str]]:
        """See `Config`."""
        if self.query is not None:
            yield (
                ("query",),
                "URLs end up in logs of senders and proxies, and with them the keys",
                "let senders use the header if they can",
            )


class BasicConfig(Config):
    """Senders prove themselves with a user name and a password (HTTP Basic authentication, RFC 7617)."""

    file: Path
    """The file of users, with scrypt hashes. `tidegate auth password` writes it. It is read again when it changes."""
    realm: Annotated[str, Field(pattern=r'^[^"\\\x00-\x1f\x7f]{1,64}$')] = "tidegate"
    """What clients show when they ask for a password."""
    max_checks: Annotated[int, Field(ge=1, le=64)] = 2
    """How many passwords are checked at the same time, per worker. Each check takes a core for some tenths of a second
    and 32 MB. A password that was right is remembered until the file has another one for its user."""
    max_waiting: Annotated[int, Field(ge=0, le=10_000)] = 32
    """How many more may wait to be checked. Requests beyond get 503. Addresses take turns, and the one with most gives
    its places to others."""

    def file_faults(self) -> Iterator[FileFault]:
        """See `gateway_core.contract.needed_files.NeedsFiles`."""
        from .edited_file import BadFile, read_bytes
        from .passwords import read_users

        try:
            read_users(read_bytes(self.file), self.file)
        except BadFile as e:
            yield FileFault("file", str(e), f"`tidegate auth password NAME --file {self.file}` adds a user")
