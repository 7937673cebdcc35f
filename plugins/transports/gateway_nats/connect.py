"""Connects to a NATS server with nats-py, and says what its errors mean."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

import anyio
from gateway_options.client_tls import ClientTlsConfig, client_context
from gateway_transport.connection import Rejected
from nats import errors
from nats.aio.client import Client

from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import MissingExtra
from gateway_core.contract.one_line import one_line

from .client_config import NatsConfig

CLOSE_S = 2.0
PING_S = 5
"""A connection ends that has been silent for three times as long."""
_DENIED = ("authorization", "authentication", "revoked", "expired", "nkey", "jwt")


class _Client(Client):
    """A client that can insist on TLS: nats-py uses TLS only if the server does, not if it offers it, and takes a
    server's word that it has none."""

    insists_on_tls = False
    _heard_to = 0

    async def _send_ping(self, future: asyncio.Future[bool] | None = None) -> None:
        """What came since the last regular ping is a sign of life, too: behind many messages on a slow connection, an
        answer comes late."""
        if future is None:
            heard, self._heard_to = self._heard_to, self.stats["in_bytes"]
            if heard != self._heard_to:
                self._pings_outstanding = 1
        await super()._send_ping(future)

    async def _process_pong(self) -> None:
        """To an answer for which nobody waits any more, nats-py's reader would end for good."""
        if self._pongs and self._pongs[0].done():
            self._pongs.pop(0)
            self._pings_outstanding = 0
        else:
            await super()._process_pong()

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        if self.insists_on_tls and info.get("tls_available"):
            info["tls_required"] = True
        await super()._process_info(info, initial_connection)

    async def _process_headers(self, headers: Any) -> dict[str, str] | None:
        """Whoever may publish may send bytes that are no headers; on some, nats-py's reader would end for good."""
        try:
            return await super()._process_headers(headers)
        except Exception:
            return None

    def _connect_command(self) -> bytes:
        if self.insists_on_tls and not (self.options["tls_handshake_first"] or self._server_info.get("tls_required")):
            raise errors.SecureConnRequiredError
        return super()._connect_command()


def check_keys(options: NatsConfig, context: BuildContext) -> None:
    """Raises `MissingExtra` if the config needs the package `nkeys`, and it is not there."""
    if (options.nkey_file or options.credentials_file) and find_spec("nkeys") is None and not context.offline:
        raise MissingExtra(
            f"{context.owner}: `nkey_file` and `credentials_file` need the package nkeys: pip install nkeys"
        )


def tls_of(options: NatsConfig, owner: str) -> ssl.SSLContext | None:
    """The TLS context; None if the config asks for none. Raises `StartError` if a file can't be used."""
    return client_context(options.tls or ClientTlsConfig(), owner) if options.secure else None


async def open_client(
    options: NatsConfig,
    server: str,
    tls: ssl.SSLContext | None,
    complained: Callable[[Exception], None] = lambda error: None,
    closed: Callable[[str], None] = lambda why: None,
) -> Client:
    """Connects and logs in, once. `complained` gets what goes wrong while the connection lasts, `closed` why it ended.
    Raises `Rejected` for what no retry fixes, else `OSError` or `TimeoutError`."""
    nc = _Client()
    nc.insists_on_tls = tls is not None
    seen: list[Exception] = []
    given: dict[str, Any] = {}
    if tls is not None:
        given = {"tls": tls, "tls_hostname": urlsplit(server).hostname}

    async def on_error(error: Exception) -> None:
        seen.append(error)
        del seen[:-1]
        complained(error)

    async def on_close() -> None:
        closed(reason(nc.last_error or (seen[-1] if seen else None)))

    try:
        with anyio.fail_after(options.request_timeout_s + 1):
            await nc.connect(
                server,
                error_cb=on_error,
                closed_cb=on_close,
                name=options.client_name,
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=options.request_timeout_s,  # type: ignore[arg-type]  # it is passed to wait_for
                ping_interval=PING_S,
                dont_randomize=True,
                user=options.user,
                password=options.password,
                token=options.token,
                user_credentials=str(options.credentials_file) if options.credentials_file else None,
                nkeys_seed=str(options.nkey_file) if options.nkey_file else None,
                inbox_prefix=options.inbox_prefix,
                tls_handshake_first=options.tls_first,
                **given,
            )
    except BaseException as e:
        await close(nc)
        if isinstance(e, Exception):
            raise _translated(seen[-1] if isinstance(e, errors.NoServersError) and seen else e) from e
        raise
    return nc


async def close(nc: Client) -> None:
    """Sends what waits and closes the connection, within 2 s, also in a task that is cancelled."""
    with anyio.move_on_after(CLOSE_S, shield=True):
        await nc.close()
    writer = getattr(nc._transport, "_io_writer", None)
    if writer is not None:
        writer.transport.abort()  # a server that reads nothing would keep the socket open


def reason(error: BaseException | None) -> str:
    """One line that says what went wrong; "" for None."""
    if error is None:
        return ""
    return one_line(str(error).removeprefix("nats: ").strip("'")) or type(error).__name__


def _translated(error: BaseException) -> BaseException:
    text = reason(error)
    if isinstance(error, errors.SecureConnRequiredError):
        return Rejected("the server does not offer TLS, which the config asks for")
    if isinstance(error, ssl.SSLCertVerificationError):
        return Rejected(f"the server's certificate is not accepted: {one_line(error.verify_message)}")
    if isinstance(error, errors.Error) and any(word in text.lower() for word in _DENIED):
        return Rejected(f"the server refuses the credentials: {text}")
    if isinstance(error, TimeoutError | asyncio.TimeoutError):
        return ConnectionError("no answer in time")
    if isinstance(error, errors.Error):
        return ConnectionError(text)
    return error
