"""Tries the real endpoints of a config without sending an event: hosts answer, ports are free, files can be written."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from gateway_serving.address import check_free

from gateway_core.contract.capabilities import Addressed, Connecting, HasPath, Listening
from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.config_walk import component_refs
from gateway_core.contract.errors import Probe
from gateway_core.contract.settings import Settings

TIMEOUT_S = 5.0
_PORTS = {"http": 80, "https": 443}


def probe_all(config: GatewayConfig, settings: Settings) -> list[Probe]:
    """One result for each place in the config that has an end. Each end is tried once."""
    seen: dict[str, tuple[bool, str]] = {}
    results = []
    for path, end, attempt in _ends(config, settings):
        if end not in seen:
            seen[end] = _tried(attempt)
        results.append(Probe(path, end, *seen[end]))
    return results


def _tried(attempt: Callable[[], None]) -> tuple[bool, str]:
    try:
        attempt()
    except (OSError, ValueError) as e:
        return False, getattr(e, "strerror", None) or str(e) or type(e).__name__
    except Exception as e:  # of a plugin's code; the other ends are tried all the same
        return False, f"{type(e).__name__}: {e}"
    return True, ""


def _ends(config: GatewayConfig, settings: Settings) -> Iterator[tuple[str, str, Callable[[], None]]]:
    yield "data_dir", str(settings.data_dir), partial(_writable, settings.data_dir)
    for path, ref in component_refs(config):
        # by the usual words; a component with other endpoints reports problems when it starts
        options = ref.options
        if isinstance(options, Connecting):
            yield path, options.end, partial(options.connect, TIMEOUT_S)
        elif ref.kind == "source" and isinstance(options, Listening):
            yield path, f"listen {options.listen}", partial(check_free, options.listen)
        elif ref.kind in ("sink", "dead_letter"):
            if isinstance(options, Addressed) and isinstance(options.url, str):
                yield path, _host(options.url), partial(_reachable, options.url)
            elif isinstance(options, HasPath) and isinstance(options.path, Path):
                yield path, str(options.path), partial(_appendable, options.path)


def _host(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or _PORTS.get(parts.scheme, '?')}"


def _reachable(url: str) -> None:
    parts = urlsplit(url)
    port = parts.port or _PORTS.get(parts.scheme)
    if not parts.hostname or port is None:
        return  # no host to try
    socket.create_connection((parts.hostname, port), TIMEOUT_S).close()


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
