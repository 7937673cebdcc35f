"""Operators: whom the config lets call the admin API, besides those who have a token of the gateway.

Any authenticator of an ingress can prove who they are (`gateway_core.contract.authenticator`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from inspect import isawaitable

from anyio.abc import TaskGroup
from gateway_api.roles import ROLES, Role, may
from gateway_api.routes import Problem, Request
from gateway_api.tokens import Tokens
from gateway_serving.unexpected import log_unexpected

from gateway_core.contract.authenticator import Authenticator, Presented
from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import Overloaded, Refused
from gateway_core.contract.event import Message
from gateway_core.contract.peer import Peer

from .callers import CHALLENGE, SEND, WRONG, Caller, bearer, unknown
from .operators_config import OperatorsConfig
from .sessions import Sessions

log = logging.getLogger("tidegate.admin")

_SOON = {"retry-after": "1"}
_CHECKED_AGAIN_S = 20.0


class Operators:
    """The callers that a config knows. Raises `StartError` if an authenticator can't be built."""

    def __init__(self, entries: Mapping[str, OperatorsConfig], context: BuildContext) -> None:
        self._entries: list[tuple[OperatorsConfig, Sequence[Authenticator]]] = [
            (entry, [context.build(ref, f"{name}.authenticate[{i}]") for i, ref in enumerate(entry.authenticate)])
            for name, entry in entries.items()
        ]
        anonymous = [entry.role for entry in entries.values() if entry.anonymous and entry.role]
        self.anonymous: Role | None = max(anonymous, key=ROLES.index, default=None)

    @property
    def authenticators(self) -> list[Authenticator]:
        """All of them."""
        return [each for _, authenticators in self._entries for each in authenticators]

    @property
    def headers(self) -> list[str]:
        """The header fields besides `Authorization` that may hold credentials, in lower case."""
        places = [each.presented_in[0] for each in self.authenticators if isinstance(each, Presented)]
        return [name.decode("latin-1") for name in dict.fromkeys(places) if name]

    @property
    def challenges(self) -> list[str]:
        """What callers may send (`WWW-Authenticate`)."""
        return list(dict.fromkeys([CHALLENGE, *(each.challenge for each in self.authenticators if each.challenge)]))

    async def start(self, tasks: TaskGroup) -> None:
        """Starts the authenticators. Raises `StartError`."""
        for authenticator in self.authenticators:
            await authenticator.start(tasks)

    async def stop(self) -> None:
        """Stops the authenticators."""
        for authenticator in self.authenticators:
            try:
                await authenticator.stop()
            except Exception as e:
                log_unexpected(log, "stopping an authenticator", e)

    async def find(self, request: Message) -> Caller | None:
        """Who sends a request; None if it has no credentials. Raises `Refused` or `Overloaded`."""
        wrong: Exception | None = None
        best: Caller | None = None
        for entry, authenticators in self._entries:
            for authenticator in authenticators:
                try:
                    found = authenticator.authenticate(request)
                    who = await found if isawaitable(found) else found
                except (Refused, Overloaded) as e:
                    wrong = e if wrong is None or isinstance(e, Overloaded) else wrong
                    continue
                except Exception as e:
                    log_unexpected(log, "authenticating a caller of the admin API", e)
                    wrong = Overloaded("the credentials can't be checked now")
                    continue
                if who is not None:
                    role = entry.role_of(who)
                    if best is None or (role is not None and (best.role is None or may(role, best.role))):
                        best = Caller(f"{who.subject} ({who.authenticator})", role)
        if best is None and wrong is not None:
            raise wrong
        return best


class AdminCallers:
    """Knows who has a token of the gateway, and the operators of the config."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self.sessions = Sessions(tokens)
        self.operators: Operators | None = None
        self.renewing = 0
        """How many changes of the operators are under way."""

    async def caller(self, request: Request) -> Caller:
        """Who sends a request. Raises `Problem`."""
        if "authorization" not in request.headers:
            for cookie in self.sessions.of(request):
                found = await self._of_session(cookie, request)
                if found is not None:
                    return replace(found, csrf=self.sessions.csrf(cookie))
        return await self._sent(request)

    async def _of_session(self, cookie: str, request: Request) -> Caller | None:
        """Who has this cookie; None if its session has ended. Credentials are checked again from time to time, and when
        the config has other operators."""
        signed = self.sessions.read(cookie)
        if signed is not None:
            return Caller(signed.who, signed.role, end_s=signed.end_s)
        kept = self.sessions.recall(cookie)
        if kept is None:
            return None
        if time.monotonic() - kept.checked > _CHECKED_AGAIN_S or kept.by is not self.operators:
            by = self.operators
            try:
                caller = await self._sent(Request("GET", request.path, {}, kept.headers, peer=request.peer))
            except Problem as e:
                if e.status == 401:
                    self.sessions.forget(cookie)
                    return None
                raise
            kept.who, kept.role, kept.checked, kept.by = caller.who, caller.role, time.monotonic(), by
        return Caller(kept.who, kept.role)

    async def _sent(self, request: Request) -> Caller:
        """Who sends these credentials. Raises `Problem`."""
        given = bearer(request)
        if given is not None and (holder := self._tokens.holder(given)) is not None:
            return Caller(holder.name, holder.role, end_s=holder.end_s)
        operators = self.operators
        if operators is None and self.renewing:
            raise Problem(503, "the operators of the config have changed, and are not ready", headers=_SOON)
        if operators is None:
            raise unknown(WRONG if given is not None else SEND)
        try:
            found = await operators.find(_message(request))
        except Overloaded as e:
            raise Problem(503, str(e), headers=_SOON) from e
        except Refused as e:
            raise unknown(f"{e.detail}; {SEND}", operators.challenges) from e
        if found is not None:
            return found
        if operators.anonymous is not None and "authorization" not in request.headers:
            return Caller("anonymous", operators.anonymous, operators.challenges)
        raise unknown(WRONG if given is not None else SEND, operators.challenges)


def _message(request: Request) -> Message:
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in request.headers.items()]
    message = Message(headers, None, method=request.method, url=request.path)
    message.peer = Peer(f"[{request.peer}]:0" if ":" in request.peer else f"{request.peer}:0")
    return message
