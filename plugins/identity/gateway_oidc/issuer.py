"""Where an issuer's keys come from: discovery and a URL, a URL alone, or a file.

Source: OpenID Connect Discovery 1.0 sections 3 and 4; RFC 8414 for issuers without OpenID Connect has the same fields.
"""

from __future__ import annotations

import asyncio
import ssl
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import httpx
import msgspec
from gateway_options.renewed import Renewed

from gateway_core.contract.errors import StartError
from gateway_core.contract.files import check_regular, read_regular
from gateway_core.contract.one_line import one_line

from .config import OidcConfig, url_fault

MOST_BYTES = 1 << 20
"""The largest answer; key sets have a few kilobytes."""


class IssuerFault(Exception):
    """The issuer's keys can't be had now; the text says why."""


class KeySource(Protocol):
    """Where keys come from. `place` is shown to people. If it is `followed`, `changed` is asked every second or so."""

    place: str
    followed: bool

    async def start(self) -> None:
        """Gets ready; the issuer may be away. Raises `StartError` if a file of ours can't be used."""

    async def stop(self) -> None:
        """Releases all resources."""

    async def read(self) -> bytes:
        """The current key set. Raises `IssuerFault`."""

    def changed(self) -> bool:
        """Whether it is known, at once and without asking anybody, that the keys have changed since the last `read`."""


class KeyFile:
    """Keys in a file."""

    followed = True

    def __init__(self, path: Path, owner: str) -> None:
        self.place = str(path)
        self._path = path
        self._owner = owner
        self._stamp: tuple[int, ...] = ()

    async def start(self) -> None:
        try:
            await self.read()
        except IssuerFault as e:
            raise StartError(f"{self._owner}.jwks_file: {e}") from e

    async def stop(self) -> None:
        pass

    async def read(self) -> bytes:
        self._stamp = self._look()  # before it is read: a change in between is seen at the next look
        return await asyncio.to_thread(_read_file, self._path, trusted=True)

    def changed(self) -> bool:
        return self._look() != self._stamp

    def _look(self) -> tuple[int, ...]:
        try:
            s = self._path.stat()
        except OSError:
            return ()
        return s.st_mtime_ns, s.st_ctime_ns, s.st_size, s.st_ino, s.st_dev


class Issuer:
    """An issuer on the network. Redirects are not followed, and answers are bounded in size."""

    followed = False

    def __init__(self, config: OidcConfig, owner: str) -> None:
        self._config = config
        self._owner = owner
        self._tls: Renewed[ssl.SSLContext] | None = None
        self._discovery = f"{config.issuer.rstrip('/')}/.well-known/openid-configuration"
        self.place = config.jwks_url or config.issuer

    async def start(self) -> None:
        try:
            self._tls = await asyncio.to_thread(self._trusted)
        except (OSError, ssl.SSLError) as e:
            raise StartError(f"{self._owner}.ca_file: the certificates can't be used: {e}") from e

    def _trusted(self) -> Renewed[ssl.SSLContext]:
        path = self._config.ca_file
        files = [path] if path is not None else []
        return Renewed(files, lambda: _trusting(path), self._owner, "certificates of the issuer's authorities")

    async def stop(self) -> None:
        self._tls = None

    async def read(self) -> bytes:
        try:
            async with asyncio.timeout(self._config.timeout_s):
                url = self._config.jwks_url or str((await self.metadata())["jwks_uri"])
                return await self._get(url, "application/jwk-set+json, application/json")
        except TimeoutError as e:
            raise IssuerFault(f"{self.place} did not answer within {self._config.timeout_s:g} s") from e

    def changed(self) -> bool:
        return False

    async def metadata(self) -> Mapping[str, Any]:
        """What the issuer says about itself; `jwks_uri` is there. Raises `IssuerFault`, even if it is another issuer
        (Discovery section 4.3)."""
        text = await self._get(self._discovery, "application/json")
        try:
            found = msgspec.json.decode(text, type=dict[str, Any])
        except (msgspec.DecodeError, ValueError, RecursionError) as e:
            raise IssuerFault(f"{self._discovery} answered no JSON object") from e
        if found.get("issuer") != self._config.issuer:
            raise IssuerFault(
                f"{self._discovery} is about the issuer {one_line(found.get('issuer'), 200)}; "
                "`issuer` must match exactly, including a trailing slash"
            )
        url = found.get("jwks_uri")
        if not isinstance(url, str):
            raise IssuerFault(f"{self._discovery} has no `jwks_uri`")
        if (fault := url_fault(url, self._config.allow_http)) is not None:
            raise IssuerFault(f"the `jwks_uri` of {self._discovery} {fault}")
        return found

    async def _get(self, url: str, accept: str) -> bytes:
        if self._tls is None:
            raise IssuerFault("the gateway stops")
        headers = {"accept": accept, "accept-encoding": "identity"}
        if self._config.bearer_file is not None:
            token = await asyncio.to_thread(_read_file, self._config.bearer_file)
            headers["authorization"] = f"Bearer {token.decode('ascii', 'replace').strip()}"
        # requests are rare: a connection that is kept would be closed by the issuer, at worst while it is used again
        tls, timeout = self._tls.current(), self._config.timeout_s
        try:
            async with (
                httpx.AsyncClient(verify=tls, timeout=timeout, follow_redirects=False) as client,
                client.stream("GET", url, headers=headers) as answer,
            ):
                if answer.status_code != 200:
                    raise IssuerFault(f"{url} answered {answer.status_code}")
                if answer.headers.get("content-encoding", "identity") != "identity":
                    raise IssuerFault(f"{url} answered with a content coding that was not asked for")
                body = bytearray()
                async for part in answer.aiter_raw():
                    body += part
                    if len(body) > MOST_BYTES:
                        raise IssuerFault(f"{url} answered more than {MOST_BYTES} bytes")
        except TimeoutError:
            raise
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as e:
            raise IssuerFault(f"{url} does not answer: {one_line(e) or type(e).__name__}") from e
        return bytes(body)


def _trusting(ca_file: Path | None) -> ssl.SSLContext:
    check_regular(ca_file)
    context = ssl.create_default_context(cafile=str(ca_file) if ca_file is not None else None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _read_file(path: Path, trusted: bool = False) -> bytes:
    """A file's content. What is `trusted` must not be writable for everyone. Raises `IssuerFault`."""
    try:
        text, mode = read_regular(path, MOST_BYTES)
    except OSError as e:
        raise IssuerFault(f"{path} can't be read: {e.strerror or e}") from e
    if trusted and mode & stat.S_IWOTH:
        raise IssuerFault(f"{path}: every user may write to it, and so let themselves in: run `chmod o-w`")
    if len(text) > MOST_BYTES:
        raise IssuerFault(f"{path} has more than {MOST_BYTES} bytes")
    return text
