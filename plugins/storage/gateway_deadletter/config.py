"""The options."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator, model_validator

from gateway_core.contract.component import Config
from gateway_core.contract.config_node import Place

from .encryption import parse_key


class EncryptConfig(Config):
    """Encrypts each dead letter with AES-256-GCM (`pip install 'tidegate[encryption]'`). The time of a dead letter, its
    size and the id of its key stay readable."""

    keys: Annotated[list[str], Field(min_length=1)]
    """Keys of 32 random bytes, in base64 or hexadecimal (`openssl rand -base64 32`); use `${secret:NAME}`. The first
    one encrypts, all decrypt: put a new one in front."""
    also_plain: bool = False
    """Whether older lines that are not encrypted are read, too. Whoever can write the file could add such
    lines."""

    @field_validator("keys")
    @classmethod
    def _are_keys(cls, keys: list[str]) -> list[str]:
        for number, key in enumerate(keys):
            try:
                parse_key(key)
            except ValueError as e:
                raise ValueError(f"key {number + 1}: {e}") from None
        return keys

    @model_validator(mode="after")
    def _can_encrypt(self) -> EncryptConfig:
        if importlib.util.find_spec("cryptography") is None:
            raise ValueError("needs the package cryptography: pip install 'tidegate[encryption]'")
        return self

    def warnings(self) -> Iterator[tuple[Place, str, str]]:
        """See `Config`."""
        if "keys" not in self._hidden:
            yield ("keys",), "the keys stand in the config in clear", "write `${secret:NAME}`"


class DeadLetterConfig(Config):
    """A file of dead letters. With several workers each has its own, with `~1`, `~2`, … before the suffix."""

    path: Path | None = None
    """The file; default: `<data_dir>/dead-letter/<broker>.jsonl`. Its directory is created."""
    fsync: bool = True
    """Whether a dead letter must be on disk before its event is finished. Without it, a crash of the machine can lose
    dead letters; a crash of the gateway can't."""
    encrypt: EncryptConfig | None = None
    """Encrypts what is written from now on. By default dead letters are plain JSON."""
