"""Finding a running gateway: by its data directory, or by the address of its admin API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from . import common
from .common import CommandError
from .post import secure

UNAUTHORIZED = "{url} wants a token: set TIDEGATE_ADMIN_TOKEN to the value that the gateway has"


def addresses(data_dir: Path) -> dict[str, Any] | None:
    """What a running gateway wrote: `pid`, `admin`, `ingress`; None where none runs with this data directory."""
    try:
        found = json.loads((data_dir / "gateway.json").read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as e:
        raise CommandError(f"can't read {data_dir / 'gateway.json'}: {e}") from e
    return found if isinstance(found, dict) else None


def admin_url(address: str | None, data_dir: Path) -> str:
    """The admin API's URL: as named (`HOST:PORT` or a URL), else as the data directory says. Raises `CommandError`."""
    if address:
        return address.rstrip("/") if "://" in address else f"http://{address}"
    found = addresses(data_dir)
    if found is None:
        raise CommandError(
            f"no gateway runs with the data directory {data_dir}: name another with --data-dir, or the address of its "
            "admin API with --admin"
        )
    if not found.get("admin"):
        raise CommandError(f"the gateway of {data_dir} has no admin API (admin: off)")
    return str(found["admin"])


@contextmanager
def connected(admin: str | None, data_dir: Path | None, timeout_s: float = 10.0) -> Iterator[tuple[str, httpx.Client]]:
    """The admin API's URL, and a client that has the token of `TIDEGATE_ADMIN_TOKEN`. Raises `CommandError`."""
    settings = common.settings(data_dir=data_dir)
    url = admin_url(admin, settings.data_dir)
    token = settings.admin_token.get_secret_value() if settings.admin_token else ""
    headers = {b"authorization": b"Bearer " + token.encode()} if token else {}
    with httpx.Client(timeout=timeout_s, trust_env=False, verify=secure([url]), headers=headers) as http:
        yield url, http


def fetch_status(url: str, http: httpx.Client) -> dict[str, Any]:
    """The status document. Raises `CommandError` where the gateway doesn't answer."""
    try:
        response = http.get(f"{url}/status")
        if response.status_code == 401:
            raise CommandError(UNAUTHORIZED.format(url=url))
        response.raise_for_status()
        document = response.json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as e:
        raise CommandError(f"no status from {url}: {e}") from e
    if not isinstance(document, dict) or "brokers" not in document:
        raise CommandError(f"no status from {url}: another service answers there")
    return document
