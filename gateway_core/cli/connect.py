"""Tries the real endpoints of a config without sending an event: hosts answer, ports are free, files can be written."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable
from urllib.parse import urlsplit

from ..config.model import GatewayConfig
from ..contract.address import split_address
from ..contract.capabilities import Addressed, HasPath, Listening
from ..contract.component import ComponentRef
from ..runtime.settings import Settings

TIMEOUT_S = 5.0
_PORTS = {"http": 80, "https": 443}


@runtime_checkable
class Connects(Protocol):
    """Options that can try their endpoint themselves. `end` names it."""

    @property
    def end(self) -> str: ...

    def connect(self, limit_s: float) -> None:
        """Returns if it answers and accepts us. Raises `OSError` with the reason."""


def probe_all(config: GatewayConfig, settings: Settings) -> list[dict[str, Any]]:
    """One result for each end: `path` in the config, `end`, `ok`, `reason`. Each end is tried once."""
    seen: dict[str, tuple[bool, str]] = {}
    results = []
    for path, end, attempt in _ends(config, settings):
        if end not in seen:
            seen[end] = _tried(attempt)
        ok, reason = seen[end]
        results.append({"path": path, "end": end, "ok": ok, "reason": reason})
    return results


class Bearable(Exception):
    """A problem of an endpoint that does not keep the gateway from running."""


def _tried(attempt: Callable[[], None]) -> tuple[bool, str]:
    try:
        attempt()
    except Bearable as e:
        return True, str(e)
    except (OSError, ValueError) as e:
        return False, getattr(e, "strerror", None) or str(e) or type(e).__name__
    return True, ""


def _ends(config: GatewayConfig, settings: Settings) -> Iterator[tuple[str, str, Callable[[], None]]]:
    yield "data_dir", str(settings.data_dir), partial(_writable, settings.data_dir)
    if settings.admin not in ("off", "socket"):
        yield "admin", f"listen {settings.admin}", partial(_admin_free, settings)
    for path, ref in _refs(config):
        # by the usual words; a component with other endpoints reports problems when it starts
        options = ref.options
        if isinstance(options, Connects):
            yield path, options.end, partial(options.connect, TIMEOUT_S)
        elif ref.kind == "source" and isinstance(options, Listening):
            yield path, f"listen {options.listen}", partial(_free, options.listen)
        elif ref.kind in ("sink", "dead_letter"):
            if isinstance(options, Addressed) and isinstance(options.url, str):
                yield path, _host(options.url), partial(_reachable, options.url)
            elif isinstance(options, HasPath) and isinstance(options.path, Path):
                yield path, str(options.path), partial(_appendable, options.path)


def _refs(config: GatewayConfig) -> Iterator[tuple[str, ComponentRef]]:
    for name, broker in config.brokers.items():
        for i, ref in enumerate(broker.ingress):
            yield f"brokers.{name}.ingress[{i}]", ref
        yield f"brokers.{name}.channel", broker.channel
        yield f"brokers.{name}.dead_letter", broker.dead_letter
    for name, trigger in config.triggers.items():
        yield f"triggers.{name}.subscriber", trigger.subscriber
        if trigger.dead_letter is not None:
            yield f"triggers.{name}.dead_letter", trigger.dead_letter
    for name, bridge in config.bridges.items():
        yield f"bridges.{name}.source", bridge.source
        yield f"bridges.{name}.sink", bridge.sink
        if bridge.dead_letter is not None:
            yield f"bridges.{name}.dead_letter", bridge.dead_letter


def _host(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or _PORTS.get(parts.scheme, '?')}"


def _reachable(url: str) -> None:
    parts = urlsplit(url)
    port = parts.port or _PORTS.get(parts.scheme)
    if not parts.hostname or port is None:
        return  # no host to try
    socket.create_connection((parts.hostname, port), TIMEOUT_S).close()


def _admin_free(settings: Settings) -> None:
    """Like `run`: the gateway runs even if the default address is taken."""
    try:
        _free(settings.admin)
    except OSError as e:
        remedy = "name another address by --admin or TIDEGATE_ADMIN"
        if "admin" in settings.model_fields_set:
            raise OSError(e.errno, f"{e.strerror}: {remedy}") from e
        raise Bearable(f"{e.strerror}: the admin API will answer only at its socket; {remedy}") from e


def _free(address: str) -> None:
    host, port = split_address(address)
    family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(where)


def _appendable(file: Path) -> None:
    """Raises `OSError` unless the file can be appended to, or created."""
    if file.is_dir():
        raise IsADirectoryError(21, f"{file} is a directory: name a file in it")
    if file.exists() and not os.access(file, os.W_OK):
        raise PermissionError(13, f"{file} can't be written")
    _writable(file.absolute().parent)


def _writable(directory: Path) -> None:
    """Raises `OSError` unless the directory, or its nearest existing parent, can be written."""
    there = directory.absolute()
    while not there.exists():
        there = there.parent
    if not there.is_dir():
        raise NotADirectoryError(20, f"{there} is not a directory")
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(13, f"{there} can't be written")
