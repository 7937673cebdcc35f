"""API keys: how they look, and the file that knows them.

A key is `tgk_ID_SECRET`: the id finds its entry in the file, and the secret has 256 random bits. The file holds the
SHA-256 of each key. A fast hash is enough: slow ones (scrypt) make up for passwords that can be guessed, and nobody
guesses 256 random bits, whatever a guess costs. Whoever reads the file can't send with what it holds.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec

from .edited_file import BadFile, edit

PREFIX = "tgk_"
"""The first characters of every key, by which scanners for secrets can find one."""
LENGTH = 60
"""Characters in a key."""
_PRESENTED = re.compile(rb"tgk_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")
NAME = r"^[A-Za-z0-9](?:[A-Za-z0-9._:/@-]{0,126}[A-Za-z0-9])?$"

Time = Annotated[datetime, msgspec.Meta(tz=True)]


class Key(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An entry of the file.

    `id`      the part of the key that is no secret.
    `name`    whose key it is; several keys may have one name.
    `sha256`  of the whole key, in hexadecimal.
    `created` and `expires`: RFC 3339; a key without `expires` is valid until it is revoked.
    """

    id: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{12}$")]
    name: Annotated[str, msgspec.Meta(pattern=NAME)]
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    created: Time
    expires: Time | None = None

    def expired(self, now: datetime) -> bool:
        return self.expires is not None and self.expires <= now


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    keys: list[Key]


_decode = msgspec.json.Decoder(_Document).decode


def id_of(presented: bytes) -> str | None:
    """The id in what a sender presents as a key; None if no key looks like this."""
    found = _PRESENTED.fullmatch(presented)
    return found[1].decode() if found else None


def read_keys(content: bytes, path: Path) -> dict[str, Key]:
    """The keys of a file by their ids. Raises `BadFile`."""
    try:
        keys = _decode(content).keys
    except (msgspec.DecodeError, UnicodeDecodeError) as e:  # its text names a place and types, and quotes nothing
        raise BadFile(f"{path}: is not a file of API keys: {e}") from None
    try:
        for key in keys:
            _ = key.created.astimezone(UTC), key.expires and key.expires.astimezone(UTC)
    except OverflowError:
        raise BadFile(f"{path}: a key has a time outside the years 1 to 9999") from None
    found = {key.id: key for key in keys}
    if len(found) != len(keys):
        raise BadFile(f"{path}: two keys have the same id")
    return found


def _written(keys: Iterable[Key]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(_Document(list(keys))), indent=1) + b"\n"


def add_key(path: Path, name: str, expires: datetime | None = None) -> tuple[Key, str]:
    """Makes a key, adds it to the file, and returns both. The key itself is kept nowhere. Raises `BadFile`."""
    if not re.fullmatch(NAME, name) or name.endswith("\n"):
        raise BadFile(f"{name!r} can't be the name of a key: use letters, digits and . _ : / @ -")
    made: list[tuple[Key, str]] = []

    def change(content: bytes | None) -> bytes:
        keys = {} if content is None else read_keys(content, path)
        id_ = secrets.token_hex(6)
        while id_ in keys:
            id_ = secrets.token_hex(6)
        text = f"{PREFIX}{id_}_{secrets.token_urlsafe(32)}"
        now = datetime.now(UTC).replace(microsecond=0)
        key = Key(id_, name, hashlib.sha256(text.encode()).hexdigest(), now, expires)
        made.append((key, text))
        return _written([*keys.values(), key])

    edit(path, change)
    return made[0]


def remove_keys(path: Path, ids: Iterable[str]) -> list[Key]:
    """Removes keys from the file, and returns them. Raises `BadFile`; then all stay."""
    removed: list[Key] = []

    def change(content: bytes | None) -> bytes:
        if content is None:
            raise BadFile(f"{path}: there is no such file")
        keys = read_keys(content, path)
        for id_ in dict.fromkeys(ids):
            if id_ not in keys:
                raise BadFile(f"{path}: there is no key with the id {id_!r}")
            removed.append(keys.pop(id_))
        return _written(keys.values())

    edit(path, change)
    return removed
