"""Calls the admin API of a running gateway."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from gateway_core.contract.cli.common import CommandError
from gateway_core.contract.errors import Fault

from .running import UNAUTHORIZED, connected

PATIENCE_S = 300.0
"""A change may wait for attempts in flight (`drain_timeout_s`), and a reload for components that start slowly."""


class Declined(CommandError):
    """The gateway refused the request. `faults` are those of a config; a fault without `file` is in the request's
    body."""

    def __init__(self, detail: str, status: int, faults: list[Fault]) -> None:
        super().__init__(detail)
        self.status = status
        self.faults = faults


class Remote:
    """One gateway."""

    def __init__(self, url: str, http: httpx.Client) -> None:
        self._url = url
        self._http = http

    def ask(
        self,
        method: str,
        *path: str,
        body: bytes | None = None,
        media: str = "application/yaml",
        query: Mapping[str, str] | None = None,
    ) -> Any:
        """Sends a request and returns the response document, or None. `media` is the body's media type. Raises
        `CommandError`."""
        url = "/".join([f"{self._url}/api/v1", *(quote(part, safe="") for part in path)])
        headers = {} if body is None else {"content-type": media}
        try:
            response = self._http.request(method, url, content=body, headers=headers, params=query)
        except (httpx.HTTPError, httpx.InvalidURL) as e:
            tls = isinstance(e, httpx.RemoteProtocolError) and self._url.startswith("http://")
            hint = "if it has TLS, write https:// before its address" if tls else ""
            raise CommandError(f"no response from {self._url}: {e} {hint}".rstrip()) from e
        document = self._document(response)
        if response.is_success:
            return document
        raise self._declined(url, response, document)

    def lines(self, *path: str, query: Mapping[str, Any], quiet_s: float) -> Iterator[str]:
        """The lines of a streamed response, as they arrive. Raises `httpx.HTTPError` if it breaks off or is silent for
        `quiet_s` seconds, and `CommandError`."""
        url = "/".join([f"{self._url}/api/v1", *path])
        try:
            request = self._http.build_request("GET", url, params=query, timeout=quiet_s)
            response = self._http.send(request, stream=True)
        except (httpx.HTTPError, httpx.InvalidURL) as e:
            raise CommandError(f"no response from {self._url}: {e}") from e
        with closing(response):
            if not response.is_success:
                response.read()
                raise self._declined(url, response, self._document(response))
            yield from response.iter_lines()

    def _declined(self, url: str, response: httpx.Response, document: Any) -> CommandError:
        if response.status_code == 401:
            return CommandError(UNAUTHORIZED.format(url=self._url))
        detail = document.get("detail") if isinstance(document, dict) else None
        faults = document.get("faults", []) if isinstance(document, dict) else []
        return Declined(detail or f"{url}: {response.status_code}", response.status_code, [fault_of(f) for f in faults])

    def _document(self, response: httpx.Response) -> Any:
        if not response.content:
            return None
        try:
            return response.json()
        except ValueError:
            raise CommandError(f"no response from {self._url}: another service is listening there") from None


@contextmanager
def remote(admin: str | None, data_dir: Path | None) -> Iterator[Remote]:
    """The gateway that the options select. Raises `CommandError`."""
    with connected(admin, data_dir, PATIENCE_S) as (url, http):
        yield Remote(url, http)


def fault_of(document: dict[str, Any]) -> Fault:
    """Reads a fault of the admin API."""
    return Fault(
        document["message"], document["path"], document["file"] or "", document["line"] or 0, document["remedy"]
    )
