"""Secrets for signatures, from the config and from files that change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Generic, Self, TypeVar

from gateway_options.renewed import Renewed
from pydantic import AfterValidator, SecretStr, model_validator

from gateway_core.contract.component import Config
from gateway_core.contract.config_node import Place
from gateway_core.contract.errors import StartError
from gateway_core.contract.files import read_regular

SHORTEST = 16
"""Bytes that a secret should have; `check` warns of a shorter one."""
MOST_BYTES = 64 * 1024

K = TypeVar("K")


def _not_empty(secret: SecretStr) -> SecretStr:
    if not secret.get_secret_value().strip():
        raise ValueError("the secret is empty: anyone could sign with it")
    return secret


class SecretsConfig(Config):
    """The secrets of signatures."""

    secrets: list[Annotated[SecretStr, AfterValidator(_not_empty)]] = []
    """The secrets; use `${secret:NAME}`. While one replaces another, both are here."""
    secret_files: list[Path] = []
    """Files with one secret each, such as mounted Kubernetes secrets. A changed file counts within a second, without a
    reload; so does one that was removed: its secret is no longer used. A line break at the end is not part of the
    secret."""

    @model_validator(mode="after")
    def _has_a_secret(self) -> Self:
        if not self.secrets and not self.secret_files:
            raise ValueError("there is no secret: add `secrets` or `secret_files`")
        return self

    def short_secrets(self, key: Callable[[str], bytes], shortest: int = SHORTEST) -> Iterator[tuple[Place, str, str]]:
        """Warnings of secrets whose keys have fewer bytes than `shortest`."""
        for i, secret in enumerate(self.secrets):
            if (length := len(key(secret.get_secret_value()))) < shortest:
                text = f"the secret has {length} bytes only: it can be guessed from one signed request"
                yield ("secrets", i), text, f"use at least {shortest} random bytes, such as `openssl rand -base64 32`"


class SigningKeys(Generic[K]):
    """The keys of a config, in its order. `parse` makes one from the text of a secret; it raises `ValueError`, with a
    text that does not quote the secret.

    Each file counts for itself: one that can't be used keeps its last key, and one that was removed has none."""

    def __init__(self, options: SecretsConfig, parse: Callable[[str], K], owner: str, *, offline: bool) -> None:
        """Raises `StartError` if a file can't be used. `offline` reads no file."""
        self._parse = parse
        self._owner = owner
        try:
            self._own = [parse(secret.get_secret_value()) for secret in options.secrets]
            self._from_files = [self._followed(path) for path in ([] if offline else options.secret_files)]
        except ValueError as e:
            raise StartError(f"{owner}: {e}") from None

    def current(self) -> Sequence[K]:
        """The keys as they are now; none if all their files were removed."""
        if not self._from_files:
            return self._own
        return [*self._own, *(key for file in self._from_files for key in file.current())]

    def _followed(self, path: Path) -> Renewed[list[K]]:
        return Renewed([path], lambda: [self._from_file(path)], self._owner, "secrets", gone=list)

    def _from_file(self, path: Path) -> K:
        try:
            content, _ = read_regular(path, MOST_BYTES)
            text = content.decode()
        except OSError as e:
            raise StartError(f"{self._owner}: the secret in {path} can't be read: {e.strerror or e}") from e
        except UnicodeDecodeError:
            raise StartError(f"{self._owner}: the secret in {path} is not text in UTF-8") from None
        text = text.removesuffix("\n").removesuffix("\r")
        if not text.strip() or len(content) > MOST_BYTES:
            raise StartError(f"{self._owner}: the secret in {path} is {'too long' if text.strip() else 'empty'}")
        try:
            return self._parse(text)
        except ValueError as e:
            raise StartError(f"{self._owner}: {path}: {e}") from None
