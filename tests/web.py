"""Requests of tests. They wait a minute: on a busy machine an answer may take longer than the 5 s that httpx waits."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import httpx

LIMIT_S = 60.0


def request(method: str, url: str, **options: Any) -> httpx.Response:
    """`httpx.request` with its options; so are the others, which name the method."""
    return httpx.request(method, url, **_with_defaults(url, options))


def get(url: str, **options: Any) -> httpx.Response:
    return request("GET", url, **options)


def post(url: str, **options: Any) -> httpx.Response:
    return request("POST", url, **options)


def put(url: str, **options: Any) -> httpx.Response:
    return request("PUT", url, **options)


def patch(url: str, **options: Any) -> httpx.Response:
    return request("PATCH", url, **options)


def delete(url: str, **options: Any) -> httpx.Response:
    return request("DELETE", url, **options)


def options(url: str, **options: Any) -> httpx.Response:
    return request("OPTIONS", url, **options)


def head(url: str, **options: Any) -> httpx.Response:
    return request("HEAD", url, **options)


def stream(method: str, url: str, **options: Any) -> AbstractContextManager[httpx.Response]:
    """`httpx.stream` with its options."""
    return httpx.stream(method, url, **_with_defaults(url, options))


def client(**options: Any) -> httpx.Client:
    """`httpx.Client` with its options."""
    return httpx.Client(**{"timeout": LIMIT_S, **options})


def async_client(**options: Any) -> httpx.AsyncClient:
    """`httpx.AsyncClient` with its options."""
    return httpx.AsyncClient(**{"timeout": LIMIT_S, **options})


def _with_defaults(url: str, options: dict[str, Any]) -> dict[str, Any]:
    """Over plain HTTP, httpx need not load all trusted authorities: that takes 25 ms each time."""
    plain = {"verify": False} if url.startswith("http://") else {}
    return {"timeout": LIMIT_S, **plain, **options}
