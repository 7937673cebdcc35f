"""Finding a running gateway: by its data directory, or by the address of its admin API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx

from .common import CommandError


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


def fetch_status(url: str, http: httpx.Client) -> dict[str, Any]:
    """The status document. Raises `CommandError` where the gateway doesn't answer."""
    try:
        response = http.get(f"{url}/status")
        response.raise_for_status()
        document = response.json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as e:
        raise CommandError(f"no status from {url}: {e}") from e
    if not isinstance(document, dict) or "brokers" not in document:
        raise CommandError(f"no status from {url}: another service answers there")
    return document
