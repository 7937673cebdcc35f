"""Asks a gateway for a rewind that it may not survive."""

from __future__ import annotations

from contextlib import suppress

import httpx

from tests import web


def ask_to_rewind(url: str, headers: dict[str, str], then: str) -> None:
    with suppress(httpx.HTTPError):  # the gateway is killed
        web.post(f"{url}/api/v1/rewinds", json={"trigger": "one", "to": then}, headers=headers, verify=False)
