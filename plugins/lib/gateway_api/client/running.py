"""Finding a running gateway: by its data directory, or by the address of its admin API."""

from __future__ import annotations

import json
import os
import socket
import ssl
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import msgspec
from gateway_options.url import secure

from gateway_core.contract.cli import common
from gateway_core.contract.cli.common import CommandError
from gateway_core.contract.one_line import one_line
from gateway_core.contract.status import GatewayStatus

from ..discovery import address_file, reachable, socket_path
from ..tokens import read_token
from . import logins

if TYPE_CHECKING:
    from gateway_core.contract.settings import Settings

UNAUTHORIZED = (
    "{url} requires a token, or does not take this one: set TIDEGATE_ADMIN_TOKEN or TIDEGATE_ADMIN_TOKEN_FILE, or log "
    "in (`tidegate login`); `tidegate admin token` shows one to the gateway's own user"
)
TOKEN_FILE = "TIDEGATE_ADMIN_TOKEN_FILE"
"""The environment variable that names a file with a token."""


def addresses(data_dir: Path) -> dict[str, Any] | None:
    """The addresses that a running gateway wrote (`address_file`); None if no gateway runs with this data directory."""
    try:
        _check_owner(data_dir)
        found = json.loads(address_file(data_dir).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as e:
        raise CommandError(f"can't read {address_file(data_dir)}: {e}") from e
    return found if isinstance(found, dict) else None


def _check_owner(data_dir: Path) -> None:
    """Raises `CommandError` if another user wrote the address file, who would get our token. Raises `OSError`."""
    owner, folder = address_file(data_dir).stat().st_uid, data_dir.stat()
    if owner not in (0, os.geteuid()) and (owner != folder.st_uid or folder.st_mode & stat.S_IWOTH):
        raise CommandError(f"{address_file(data_dir)} belongs to another user ({owner}): pass --admin, or remove it")


def admin_url(address: str | None, data_dir: Path) -> str:
    """The admin API's URL: the given one (`HOST:PORT` or a URL), else that of the data directory. Raises
    `CommandError`."""
    if address:
        return address.rstrip("/") if "://" in address else f"http://{address}"
    found = addresses(data_dir)
    if found is None:
        raise CommandError(
            f"no gateway is running with the data directory {data_dir}: use another --data-dir, or pass the "
            "address of its admin API with --admin"
        )
    if not found.get("admin"):
        if found.get("socket"):
            raise CommandError(
                f"the gateway of {data_dir} does not respond at {found['socket']}: is it running as another user?"
            )
        raise CommandError(f"the gateway of {data_dir} has no admin API (admin: off)")
    return str(found["admin"])


def _local(data_dir: Path, stack: ExitStack) -> str | None:
    """The socket of the gateway with this data directory, None if nothing responds there (no gateway, or another
    user's)."""
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        path = stack.enter_context(reachable(socket_path(data_dir)))
        probe.connect(path)
        return path
    return None


def is_running(settings: Settings) -> bool:
    """Whether a gateway with this data directory responds at its socket. The address file alone may be left from a
    killed gateway."""
    with ExitStack() as stack:
        return _local(settings.data_dir, stack) is not None


@contextmanager
def connected(admin: str | None, data_dir: Path | None, timeout_s: float = 10.0) -> Iterator[tuple[str, httpx.Client]]:
    """The admin API's URL, and a client for it: through the socket in the data directory if the gateway is that one,
    else with a token (`_token`). Raises `CommandError`."""
    settings = common.settings(data_dir=data_dir)
    with ExitStack() as stack:
        path = _local(settings.data_dir, stack) if not admin or _is_own(admin, settings.data_dir) else None
        if path is not None:
            url = str((addresses(settings.data_dir) or {}).get("admin") or "http://localhost")
            url = url.replace("https://", "http://", 1)  # the socket has no TLS
            transport = httpx.HTTPTransport(verify=False, uds=path)
            http = httpx.Client(timeout=timeout_s, trust_env=False, transport=transport)
        else:
            url = admin_url(admin, settings.data_dir)
            token = _token(url, settings)
            headers = {b"authorization": b"Bearer " + token.encode()} if token else {}
            http = httpx.Client(timeout=timeout_s, trust_env=False, verify=_trust(url), headers=headers)
        yield url, stack.enter_context(http)


def _trust(url: str) -> bool | ssl.SSLContext:
    """Whom to trust at this address: the usual authorities, or those in the file `SSL_CERT_FILE`. Raises
    `CommandError`."""
    named = os.environ.get("SSL_CERT_FILE")
    if not named or not secure([url]):
        return secure([url])
    try:
        return ssl.create_default_context(cafile=named)
    except OSError as e:
        raise CommandError(f"can't use the certificates in {named} (SSL_CERT_FILE): {e}") from e


def _is_own(admin: str, data_dir: Path) -> bool:
    """Whether this is the address of the gateway with this data directory, and its process is there."""
    try:
        found = addresses(data_dir) or {}
        if found.get("admin") != admin_url(admin, data_dir):
            return False
        os.kill(int(found["pid"]), 0)
    except PermissionError:
        return True
    except (CommandError, OSError, ValueError, KeyError):
        return False
    return True


def _token(url: str, settings: Settings) -> str:
    """The token to send; "" without one. Raises `CommandError`."""
    token = _found_token(url, settings)
    if not token.isprintable():  # the client's error would quote it
        raise CommandError("the token of the admin API can't be sent: it has a line break, or is not UTF-8 text")
    return token


def _found_token(url: str, settings: Settings) -> str:
    """The token from `TIDEGATE_ADMIN_TOKEN`, else from the file that `TIDEGATE_ADMIN_TOKEN_FILE` names. That of a login
    goes to its gateway only, and the one in the data directory to the gateway of that directory. Raises
    `CommandError`."""
    if settings.admin_token and (token := settings.admin_token.get_secret_value()):
        return token
    if named := os.environ.get(TOKEN_FILE):
        try:
            return Path(named).read_text().strip()
        except (OSError, ValueError) as e:
            reason = e.strerror if isinstance(e, OSError) else "not text"
            raise CommandError(f"can't read the token in {named} ({TOKEN_FILE}): {reason}") from e
    if token := logins.find(url):
        return token
    if _is_own(url, settings.data_dir):
        with suppress(OSError, ValueError):
            return read_token(settings.data_dir)
    return ""


def fetch_status(url: str, http: httpx.Client) -> GatewayStatus:
    """The status. Raises `CommandError` if the gateway does not respond."""
    return read_status(url, fetch_document(url, http))


def read_status(url: str, document: dict[str, Any]) -> GatewayStatus:
    """The status in a document from there. Raises `CommandError` if there is none."""
    try:
        return GatewayStatus.read(document)
    except msgspec.ValidationError as e:
        raise CommandError(f"no status from {url}: another service answers there ({e})") from e


def fetch_document(url: str, http: httpx.Client) -> dict[str, Any]:
    """The status as JSON, as it comes. Raises `CommandError` if the gateway does not respond."""
    try:
        response = http.get(f"{url}/status")
        if response.status_code == 401:
            raise CommandError(UNAUTHORIZED.format(url=url))
        if response.status_code == 403:
            raise CommandError(f"{url} declines: {one_line(response.json()['detail'])}")
        response.raise_for_status()
        document = response.json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, LookupError, TypeError) as e:
        raise CommandError(f"no status from {url}: {e}") from e
    if not isinstance(document, dict) or "brokers" not in document:
        raise CommandError(f"no status from {url}: another service answers there")
    return document
