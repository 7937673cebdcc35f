"""The files that pages load: their content, compressed once, at addresses that change with it."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gateway_api.routes import Answer, Problem, Request, Route, Text

FOLDER = Path(__file__).parent / "assets"
PATH = "/console/assets"
_MEDIA = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
_FOREVER = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class Asset:
    """A file. `name` has a part of its hash, so browsers may keep it for ever."""

    name: str
    media: str
    content: bytes
    compressed: bytes


@cache
def assets() -> dict[str, Asset]:
    """All files by their own names."""
    return {file.name: _asset(file) for file in sorted(FOLDER.iterdir()) if file.suffix in _MEDIA}


def _asset(file: Path) -> Asset:
    content = file.read_bytes()
    name = f"{file.stem}.{hashlib.sha256(content).hexdigest()[:12]}{file.suffix}"
    return Asset(name, _MEDIA[file.suffix], content, gzip.compress(content, mtime=0))


def address(name: str) -> str:
    """Where pages find a file."""
    return f"{PATH}/{assets()[name].name}"


def _serve(request: Request) -> Answer:
    name = request.params["name"]
    found = next((asset for asset in assets().values() if asset.name == name), None)
    if found is None:
        raise Problem(404, f"there is nothing at {request.path}")
    headers = {"cache-control": _FOREVER, "vary": "accept-encoding", "x-content-type-options": "nosniff"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Answer(body=found.compressed, media=found.media, headers={**headers, "content-encoding": "gzip"})
    return Answer(body=found.content, media=found.media, headers=headers)


def asset_routes() -> list[Route]:
    """The route of all files. They hold nothing of the gateway's, so everyone may read them."""
    return [
        Route(
            "GET",
            f"{PATH}/{{name}}",
            _serve,
            "A file of the console",
            {200: Text("*/*")},
            open=True,
            described=False,
        )
    ]
