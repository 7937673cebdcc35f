"""Encryption of dead letters: AES-256-GCM for each line, under keys that can be rotated.

Each start of a writer draws 16 random bytes, the salt, and derives a key of its own from the first configured one
(HKDF-SHA256, RFC 5869). Under that key the nonce counts from zero, so no nonce repeats, whatever crashes. A line has
the id of its configured key, and the salt, the counter and the ciphertext with its tag. The id of the dead letter stays
in clear, and is authenticated with the rest.
"""

from __future__ import annotations

import hmac
import os
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterable
from typing import Protocol

KEY_BYTES = 32
_SALT_BYTES = 16
_COUNTER_BYTES = 8
_MOST_DERIVED = 1024


class _Aead(Protocol):
    def encrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None, /) -> bytes: ...
    def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None, /) -> bytes: ...


class KeyMissing(ValueError):
    """No key of this id is known."""


class Damaged(ValueError):
    """The text was changed, or belongs to another id."""


def parse_key(text: str) -> bytes:
    """A key from 32 bytes in base64 or hexadecimal. Raises `ValueError`, which does not have the text."""
    text = text.strip()
    for read in (bytes.fromhex, _from_base64):
        try:
            key = read(text)
        except ValueError:
            continue
        if len(key) == KEY_BYTES:
            return key
    raise ValueError("a key is 32 bytes, in base64 or hexadecimal (`openssl rand -base64 32`)")


def _from_base64(text: str) -> bytes:
    try:
        return b64decode(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4), validate=True)
    except Base64Error as e:
        raise ValueError(str(e)) from None


def key_id(key: bytes) -> str:
    """What a line names its key by: 8 hexadecimal digits that tell nothing of the key."""
    return hmac.digest(key, b"tidegate key id", "sha256")[:4].hex()


class Keys:
    """Encrypts with the first key, and decrypts with any."""

    def __init__(self, keys: Iterable[bytes]) -> None:
        self._keys = {key_id(key): key for key in keys}
        self.first = next(iter(self._keys))
        self._derived: dict[tuple[str, bytes], _Aead] = {}
        self._seal: Callable[[bytes, bytes], bytes] | None = None

    @property
    def keys(self) -> list[bytes]:
        """The keys, the one that encrypts first."""
        return list(self._keys.values())

    def encrypt(self, text: bytes, bound: bytes) -> bytes:
        """Encrypts with the key `first`. `bound` is authenticated, and not part of the result."""
        if self._seal is None:  # each process draws a salt of its own, when it first writes
            self._seal = self._sealing()
        return self._seal(text, bound)

    def decrypt(self, key: str, sealed: bytes, bound: bytes) -> bytes:
        """The text. Raises `KeyMissing` and `Damaged`."""
        if key not in self._keys:
            raise KeyMissing(key)
        from cryptography.exceptions import InvalidTag

        start = _SALT_BYTES + _COUNTER_BYTES
        try:
            nonce = _nonce(sealed[_SALT_BYTES:start])
            return self._aead(key, sealed[:_SALT_BYTES]).decrypt(nonce, sealed[start:], bound)
        except (InvalidTag, ValueError):
            raise Damaged(key) from None

    def _sealing(self) -> Callable[[bytes, bytes], bytes]:
        salt, count = os.urandom(_SALT_BYTES), 0
        encrypt = self._aead(self.first, salt).encrypt

        def seal(text: bytes, bound: bytes) -> bytes:
            nonlocal count
            counter = count.to_bytes(_COUNTER_BYTES)
            count += 1
            return salt + counter + encrypt(_nonce(counter), text, bound)

        return seal

    def _aead(self, key: str, salt: bytes) -> _Aead:
        found = self._derived.get((key, salt))
        if found is None:
            if len(self._derived) >= _MOST_DERIVED:
                self._derived.clear()
            found = self._derived[key, salt] = _derive(self._keys[key], salt)
        return found


def _nonce(counter: bytes) -> bytes:
    return counter.rjust(12, b"\0")


def _derive(key: bytes, salt: bytes) -> _Aead:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return AESGCM(HKDF(SHA256(), KEY_BYTES, salt, b"tidegate dead letter 1").derive(key))
