"""Passwords as scrypt hashes (RFC 7914) in a file of users.

The file is JSON, `{"users": {"NAME": "$scrypt$ln=15,r=8,p=3$SALT$HASH"}}`: hashes in the PHC string format, as others
write them, too. A password can be guessed, so that each guess must cost something.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec

from .edited_file import BadFile, edit

LN, R, P = 15, 8, 3
"""What a new hash costs (2^15 rounds, 32 MB), as OWASP's Password Storage Cheat Sheet has it."""
MOST_MEMORY = 256 * 1024 * 1024
MOST_PARALLEL = 64
LONGEST = 1024
"""Bytes in a password."""
NAME = r"^[^:\x00-\x1f\x7f-\x9f]{1,128}$"
_PHC = re.compile(r"\$scrypt\$ln=(\d{1,2}),r=(\d{1,3}),p=(\d{1,3})\$([A-Za-z0-9+/]{11,86})\$([A-Za-z0-9+/]{22,86})")


class Hash(NamedTuple):
    """A scrypt hash with its parameters."""

    ln: int
    r: int
    p: int
    salt: bytes
    digest: bytes

    @property
    def cost(self) -> int:
        return (self.r * self.p) << self.ln


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    users: dict[Annotated[str, msgspec.Meta(pattern=NAME)], str]


_decode = msgspec.json.Decoder(_Document).decode


def computed(password: bytes, ln: int, r: int, p: int, salt: bytes, length: int) -> bytes:
    """scrypt. It takes a core for some tenths of a second, without the interpreter's lock."""
    memory = 128 * r * ((1 << ln) + p + 2)
    return hashlib.scrypt(password, salt=salt, n=1 << ln, r=r, p=p, maxmem=memory + 1024 * 1024, dklen=length)


def verify(password: bytes, known: Hash) -> bool:
    """Whether the hash is that of this password."""
    digest = computed(password, known.ln, known.r, known.p, known.salt, len(known.digest))
    return hmac.compare_digest(digest, known.digest)


def hash_of(password: bytes, ln: int = LN) -> str:
    """A new hash, in the PHC string format."""
    salt = secrets.token_bytes(16)
    digest = computed(password, ln, R, P, salt, 32)
    return f"$scrypt$ln={ln},r={R},p={P}${_unpadded(salt)}${_unpadded(digest)}"


def _unpadded(data: bytes) -> str:
    return base64.b64encode(data).decode().rstrip("=")


def _padded(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4))


def parse_hash(text: str) -> Hash | None:
    """A hash from its text; None if it is not one that can be used."""
    found = _PHC.fullmatch(text)
    if found is None:
        return None
    ln, r, p = (int(found[n]) for n in (1, 2, 3))
    if not 1 <= ln <= 20 or not r or not 1 <= p <= MOST_PARALLEL or 128 * r << ln > MOST_MEMORY:
        return None
    if ln >= 16 * r:  # RFC 7914 section 2: N is less than 2^(128 * r / 8)
        return None
    try:
        return Hash(ln, r, p, _padded(found[4]), _padded(found[5]))
    except binascii.Error:
        return None


def read_users(content: bytes, path: Path) -> dict[str, Hash]:
    """The users of a file with their hashes. Raises `BadFile`."""
    users = {}
    for name, text in _texts(content, path).items():
        if (found := parse_hash(text)) is None:
            raise BadFile(
                f"{path}: the hash of {name!r} is not a scrypt hash that can be used: make one with "
                "`tidegate auth password`"
            )
        users[name] = found
    return users


def _texts(content: bytes, path: Path) -> dict[str, str]:
    try:
        return _decode(content).users
    except (msgspec.DecodeError, UnicodeDecodeError) as e:  # its text names a place and types, and quotes nothing
        raise BadFile(f"{path}: is not a file of users: {e}") from None


def set_password(path: Path, name: str, hashed: str) -> bool:
    """Gives a user this hash; returns whether the user is new. Raises `BadFile`."""
    new: list[bool] = []

    def change(content: bytes | None) -> bytes:
        users = {} if content is None else _texts(content, path)
        new.append(name not in users)
        return msgspec.json.format(msgspec.json.encode(_Document({**users, name: hashed})), indent=1) + b"\n"

    if not re.fullmatch(NAME, name) or name.endswith("\n"):
        raise BadFile(f"{name!r} can't be the name of a user: it has no colon, and 128 characters at most")
    edit(path, change)
    return new[0]
