"""Access tokens by the client credentials grant (RFC 6749 section 4.4), kept and renewed.

There is one request at a time, whoever needs the token. After a failure the next one waits, twice as long each time,
or as long as the server asks for. A token is renewed before it ends, if it was used; one that nobody needed lapses, and
the next event asks for another.
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, ClassVar
from urllib.parse import urlsplit

from gateway_options.client_tls import client_context
from gateway_options.secrecy import shown_url

from gateway_core.contract.outcome import Outcome

from ..pool import Exchange, Pool
from .bearer_file import BearerFile
from .config import BearerConfig, OAuth2Config
from .token_request import TokenResponses, Unusable, granted, request
from .tokens import Ready, Token, TokenSource

log = logging.getLogger("tidegate.credentials")

RENEWED_AT = 0.8
"""The part of a token's time after which it is renewed."""
UNUSED_AT = 0.95
"""The part of a token's time after which it is no longer sent, because it could end on the way."""
WAITS_S = (0.5, 30.0)
"""The first and the longest wait after a failed request."""
MOST_ASKED_S = 300.0
"""The longest wait that a server can ask for."""
_NOT_YET = "none has come yet"
YOUNG_S = 10.0
"""A token that replaced a refused one is not replaced again while it is younger."""


class _OwnTasks:
    """Tasks that outlive the sink which needed a token first: others use the same tokens."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def start_soon(self, func: Callable[[], Coroutine[Any, Any, Any]], /) -> None:
        task = asyncio.get_running_loop().create_task(func())
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def cancel(self) -> None:
        for task in self._running:
            task.cancel()


class OAuth2Tokens:
    """`tokens.TokenSource`. `owner` is named in the log."""

    def __init__(self, options: OAuth2Config, owner: str, tls: ssl.SSLContext | None) -> None:
        parts = urlsplit(options.token_url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        self._options = options
        self._owner = owner
        self._shown = shown_url(options.shown("token_url") or options.token_url, hidden=options.hides("token_url"))
        self._new_pool = partial(Pool, parts.hostname or "", port, tls, 1, options.timeout_s, TokenResponses())
        self._pool = self._new_pool()
        self._tasks = _OwnTasks()
        self._token: Token | None = None
        self._waiting: list[Ready] = []
        self._asking = self._renewal = False
        self._running = False
        self._failures = 0
        self._not_before = 0.0
        self._timers: list[asyncio.TimerHandle] = []
        self.problem = _NOT_YET

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pool = self._new_pool()  # what a former one was doing ends alone
        self._pool.start(self._tasks)
        self._running = True
        self._ask()

    def stop(self) -> None:
        self._running = False
        self._set_timers()
        self._pool.stop()
        self._tasks.cancel()
        self._token = None
        self._answer(None)

    def token(self, now: float) -> Token | None:
        return self._token

    def wait(self, ready: Ready) -> None:
        self._ask()
        if self._asking:
            self._waiting.append(ready)
        else:
            ready(self._token)

    def refused(self, token: Token) -> bool:
        if token is not self._token:
            return True  # it was replaced meanwhile, or will be
        young = self._loop.time() - token.since < YOUNG_S
        if token.renewal and (young or not token.accepted):
            return False
        self._renewal = True
        self._token = None
        self._set_timers()
        self._ask()
        return True

    # -- requests -----------------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        now = self._loop.time() if self._running else 0.0
        if self._asking or not self._running or now < self._not_before:
            return
        self._asking = True
        limit = self._options.timeout_s
        done = partial(self._answered, now)
        self._pool.send(Exchange(request(self._options), now + limit, limit, done))

    def _answered(self, since: float, outcome: Outcome) -> None:
        self._asking = False
        if not self._running:
            return
        now = self._loop.time()
        try:
            secret = self._options.client_secret.get_secret_value()
            token, lifetime = granted(outcome, since, self._renewal, secret)
        except Unusable as e:
            self._failed(now, str(e), outcome.retry_after_s)
            return
        if self._failures:
            log.info("%s: %s gives access tokens again", self._owner, self._shown)
        self._token, self._renewal = token, False
        self._failures, self.problem = 0, _NOT_YET
        self._not_before = now + min(1.0, lifetime / 2)  # tokens that end at once cause no storm
        left = since - now
        self._set_timers((lifetime * RENEWED_AT + left, self._renew), (lifetime * UNUSED_AT + left, self._lapse))
        self._answer(token)

    def _failed(self, now: float, reason: str, asked_s: float | None) -> None:
        self.problem = f"{self._shown}: {reason}"
        if not self._failures:
            log.warning("%s: no access token from %s", self._owner, self.problem)
        first, most = WAITS_S
        wait = min(most, first * 2.0 ** min(self._failures, 10)) * random.uniform(0.5, 1.0)
        self._failures += 1
        self._not_before = now + max(wait, min(asked_s or 0.0, MOST_ASKED_S))
        if self._token is not None:
            self._timers.append(self._loop.call_at(self._not_before, self._renew))
        self._answer(None)

    def _answer(self, token: Token | None) -> None:
        waiting, self._waiting = self._waiting, []
        for ready in waiting:
            ready(token)

    # -- time ---------------------------------------------------------------------------------------------------------

    def _renew(self) -> None:
        if self._token is not None and self._token.used:
            self._ask()

    def _lapse(self) -> None:
        self._token = None

    def _set_timers(self, *timers: tuple[float, Callable[[], None]]) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers = [self._loop.call_later(max(0.0, wait), call) for wait, call in timers]


class SharedTokens:
    """`tokens.TokenSource` for one sink. All sinks of a process with the same options have the same tokens."""

    _known: ClassVar[list[SharedTokens]] = []  # those that are started

    def __init__(self, options: OAuth2Config, owner: str, tls: ssl.SSLContext | None) -> None:
        self._options = options
        self._tokens = OAuth2Tokens(options, owner, tls)

    @property
    def problem(self) -> str:
        return self._tokens.problem

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        for other in self._known:
            if other._loop is self._loop and other._options == self._options:
                self._tokens = other._tokens
                break
        else:
            self._tokens.start()
        self._known.append(self)

    def stop(self) -> None:
        if self in self._known:
            self._known.remove(self)
            if not any(other._tokens is self._tokens for other in self._known):
                self._tokens.stop()

    def token(self, now: float) -> Token | None:
        return self._tokens.token(now)

    def wait(self, ready: Ready) -> None:
        self._tokens.wait(ready)

    def refused(self, token: Token) -> bool:
        return self._tokens.refused(token)


def token_source(options: BearerConfig, owner: str, *, offline: bool = False) -> TokenSource:
    """What gets the tokens of the component `owner`. `offline` reads no file. Raises `StartError` if files of the
    config can't be used."""
    if options.bearer_file is not None:
        return BearerFile(options.bearer_file, owner)
    assert options.oauth2 is not None
    tls = None
    if options.oauth2.token_url.startswith("https:") and not offline:
        tls = client_context(options.oauth2.tls, f"{owner}.credentials.oauth2")
    return SharedTokens(options.oauth2, owner, tls)
