"""The gate of an ingress: finds out who sends a request, and lets in what this sender may send."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import unquote

import anyio
from anyio.abc import TaskGroup
from gateway_serving.unexpected import log_unexpected

from gateway_core.contract.authenticator import (
    Authenticator,
    Forbidden,
    Presented,
    Recognizing,
    Reporting,
    Unauthenticated,
)
from gateway_core.contract.component import BuildContext
from gateway_core.contract.departure import keeping
from gateway_core.contract.errors import Overloaded, Refused, TidegateError
from gateway_core.contract.event import Event, Message
from gateway_core.contract.identity import ANONYMOUS, Identity
from gateway_core.contract.interfaces import Accepted
from gateway_core.contract.normal_form import without_names
from gateway_core.contract.tasks import must_pass

from .config import AccessConfig
from .counts import Counts
from .denials import recorder
from .policy import Policies
from .quota import Quotas

log = logging.getLogger("tidegate.access")

LAST_CHECK_S = 2.0
"""How long it may take once the ingress stops. Passwords in the queue for a check would hold up a stop."""
LONGEST_CHECK_S = 30.0
"""How long an authenticator may take with a request. One that never answers would keep it, and a stop, waiting."""

_MARKS = ("authtype", "authid", "authclaims")
Headers = list[tuple[bytes, bytes]]
Checked = Callable[[Identity | None, TidegateError | None], None]
"""Takes the sender, or else why the request is refused: `Refused`, or `Overloaded` if nobody can tell now."""


class Gate:
    """The checks of one ingress. Attempts without the rights they need are in the audit log, and `counts` counts
    them."""

    def __init__(self, options: AccessConfig, context: BuildContext, counts: Counts | None = None) -> None:
        self._authenticators: list[Authenticator] = [
            context.build(ref, f"authenticate[{i}]") for i, ref in enumerate(options.authenticate)
        ]
        self._reporting = {
            f"{i} {ref.name}": a
            for i, (ref, a) in enumerate(zip(options.authenticate, self._authenticators, strict=True))
            if isinstance(a, Reporting)
        }
        self._anonymous = options.anonymous if options.anonymous is not None else not options.authenticate
        self._challenges = [a.challenge for a in self._authenticators]
        self._policies = Policies(options.allow, context) if options.allow else None
        self._quotas = Quotas(options.quota, context) if options.quota is not None else None
        self._auth_context = options.auth_context
        self._denied = recorder(context)
        self._counts = counts or Counts()
        self._tasks: TaskGroup | None = None
        self._checks: set[anyio.CancelScope] = set()
        self._stops = False
        first = next(iter(self._authenticators), None)
        self.recognize: Callable[[Message], Identity | None] = _nobody
        """The sender of a request that needs no other check: None if `check` must look. It is quick."""
        if isinstance(first, Recognizing) and self._quotas is None:
            self.recognize = first.recognize

    async def start(self, tasks: TaskGroup) -> None:
        """Starts the authenticators."""
        self._tasks = tasks
        for authenticator in self._authenticators:
            await authenticator.start(tasks)

    def leave(self) -> None:
        """The ingress is about to stop: requests whose check does not end soon get 503."""
        self._stops = True
        for check in self._checks:
            check.deadline = min(check.deadline, anyio.current_time() + LAST_CHECK_S)

    async def stop(self) -> None:
        """Stops the authenticators."""
        for authenticator in self._authenticators:
            await authenticator.stop()

    @property
    def reports(self) -> bool:
        """Whether there is anything to say in `info`."""
        return bool(self._reporting)

    def info(self) -> dict[str, Any]:
        """For status: `authenticate`, the state of the authenticators that report it, by number and name."""
        return {"authenticate": {name: _state(each) for name, each in self._reporting.items()}} if self.reports else {}

    # -- before a request is decoded ---------------------------------------------------------------------------------

    def check(self, request: Message, checked: Checked) -> None:
        """Finds the sender of a request. Calls `checked` once, at once if it can."""
        if self._quotas is not None and (refusal := self._quotas.attempt(request)) is not None:
            self._refuse(request, None, refusal, checked)
            return
        self._ask(0, request, checked)

    def check_again(self, request: Message, checked: Checked) -> None:
        """`check` for a request that was let in before. It uses up no quota, and none keeps it from seeing that the
        credentials have become wrong."""
        self._ask(0, request, checked, again=True)

    def _ask(
        self, first: int, request: Message, checked: Checked, wrong: Exception | None = None, *, again: bool = False
    ) -> None:
        """Asks the authenticators from the `first` on. `wrong` is what the ones before raised: any one may accept, so
        that a token of another issuer, say, is for the next one to check."""
        for number in range(first, len(self._authenticators)):
            try:
                found = self._authenticators[number].authenticate(request)
            except (Unauthenticated, Overloaded) as e:
                wrong = _graver(wrong, e)
                continue
            except KeyboardInterrupt:
                raise
            except BaseException as e:  # also `SystemExit`, and the panics of libraries in Rust
                self._failed(request, e, checked, again)
                return
            if found is None:
                continue
            if isinstance(found, Identity):
                self._known(found, request, checked, again)
            elif self._tasks is None:
                self._failed(request, Overloaded("the ingress is not open"), checked, again)
            else:
                self._tasks.start_soon(self._wait, number, found, request, checked, wrong, again)
            return
        if wrong is not None:
            self._failed(request, wrong, checked, again)
        elif self._anonymous:
            self._known(ANONYMOUS, request, checked, again)
        else:
            self._failed(request, Unauthenticated("the request has no credentials"), checked, again)

    async def _wait(
        self,
        number: int,
        pending: Awaitable[Identity | None],
        request: Message,
        checked: Checked,
        wrong: Exception | None,
        again: bool,
    ) -> None:
        try:
            found, broken = await self._result(pending)
            if found is not None:
                self._known(found, request, checked, again)
            elif broken is None or isinstance(broken, Unauthenticated | Overloaded):
                wrong = wrong if broken is None else _graver(wrong, broken)
                self._ask(number + 1, request, checked, wrong, again=again)
            else:
                self._failed(request, broken, checked, again)
        except asyncio.CancelledError:  # the ingress stops
            with suppress(Exception):
                checked(None, Overloaded("the gateway stops"))
            raise
        except Exception as e:  # of `checked`: it must not end the gateway
            log_unexpected(log, "passing on a request", e)

    async def _result(self, pending: Awaitable[Identity | None]) -> tuple[Identity | None, BaseException | None]:
        """What an authenticator finds, or what it raises. Raises only what ends this task."""
        try:
            with anyio.move_on_after(LAST_CHECK_S if self._stops else LONGEST_CHECK_S) as check:
                self._checks.add(check)
                try:
                    return await pending, None
                finally:
                    self._checks.discard(check)
            return None, Overloaded("the check of the credentials took too long")
        except BaseException as e:  # also `SystemExit`, and the panics of libraries in Rust
            if must_pass(e):
                raise
            return None, e

    def _known(self, who: Identity, request: Message, checked: Checked, again: bool) -> None:
        if not again and self._quotas is not None and (refusal := self._quotas.request(who, request)) is not None:
            self._refuse(request, who, refusal, checked)
            return
        checked(who, None)

    def _failed(self, request: Message, error: BaseException, checked: Checked, again: bool) -> None:
        if isinstance(error, Overloaded):
            checked(None, error)
            return
        if not isinstance(error, Refused):  # closed, never open
            log_unexpected(log, "authenticating a request", error)
            checked(None, Overloaded("the credentials can't be checked now"))
            return
        if isinstance(error, Unauthenticated):
            if not error.headers:
                error.challenged_by(self._challenges)
            if self._quotas is not None and not again:
                self._quotas.failed(request)
        self._refuse(request, None, error, checked)

    def _refuse(self, request: Message, who: Identity | None, refusal: Refused, checked: Checked) -> None:
        self.refused(request, who, refusal)
        checked(None, refusal)

    def refused(self, request: Message, who: Identity | None, refusal: Refused) -> None:
        """Counts and records a refusal. Whoever else refuses a request that has passed says so here."""
        self._counts.refused(who, refusal)
        self._denied(request, who, refusal)

    @property
    def credential_headers(self) -> set[bytes]:
        """The names of the header fields that senders prove themselves with, in lower case."""
        places = [a.presented_in for a in self._authenticators if isinstance(a, Presented)]
        return {b"authorization", *(name for name, _ in places if name)}

    def without_credentials(self, headers: Headers, target: str) -> tuple[Headers, str]:
        """A request's header fields, and its path and query, without what senders prove themselves with: for sources
        that pass requests on."""
        names = self.credential_headers if self._authenticators else set()
        secret = {a.presented_in[1] for a in self._authenticators if isinstance(a, Presented)} - {None}
        path, mark, query = target.partition("?")
        if secret:
            query = "&".join(p for p in query.split("&") if unquote(p.partition("=")[0]) not in secret)
        return [field for field in headers if field[0] not in names], path + mark * bool(query) + query

    def check_message(self, who: Identity, request: Message, size: int) -> Refused | None:
        """Why a message of so many bytes, on a connection that this request opened, is refused; None if it is not."""
        refusal = self._quotas.message(who, request, size) if self._quotas is not None else None
        if refusal is not None:
            self.refused(request, who, refusal)
        return refusal

    # -- once it is decoded ------------------------------------------------------------------------------------------

    @property
    def evaluates(self) -> bool:
        """Whether `evaluate` does anything."""
        return self._policies is not None or self._quotas is not None or self._auth_context

    def admit(self, who: Identity, request: Message, events: Sequence[Event]) -> Refused | None:
        """Sets the sender of events that came with one request. Returns why they may not come in, None if they may."""
        for event in events:
            event.identity = who
        return self.evaluate(who, request, events)

    def evaluate(self, who: Identity, request: Message, events: Sequence[Event]) -> Refused | None:
        """`admit` for events whose sender is set."""
        if self._auth_context:
            for event in events:
                mark(event, who)
        return self._unless(None if self._policies is None else self._policies.refusal(events), who, request, events)

    def admit_unread(self, who: Identity, request: Message, event: Event) -> Refused | None:
        """Like `admit` for an event that stands for what could not be read, on its way to the dead letter. As nobody
        knows what it would have been, the filters of `allow` do not matter: only whether the sender may send at all."""
        event.identity = who
        return self._unless(None if self._policies is None else self._policies.knows(who), who, request, (event,))

    def stranger(self, who: Identity, request: Message) -> Refused | None:
        """Why this sender may send nothing at all, None if there are events that it may send: for sources where a
        request does something before there are events."""
        refusal = None if self._policies is None else self._policies.knows(who)
        if refusal is not None:
            self.refused(request, who, refusal)
        return refusal

    def _unless(
        self, refusal: Refused | None, who: Identity, request: Message, events: Sequence[Event]
    ) -> Refused | None:
        """This refusal; without one, that of the quotas."""
        if refusal is None and self._quotas is not None:
            refusal = self._quotas.events(who, request, events)
        if refusal is not None:
            self.refused(request, who, refusal)
        return refusal

    def hearing(self, who: Identity, request: Message, done: Accepted) -> Accepted:
        """`done` for events that were admitted: also counts and records what the policies of the broker refuse, which
        only the intake knows."""
        return keeping(done, partial(self._answered, who, request, done))

    def _answered(self, who: Identity, request: Message, done: Accepted, error: BaseException | None) -> None:
        if isinstance(error, Forbidden):
            self.refused(request, who, error)
        done(error)


def _graver(first: Exception | None, second: Exception) -> Exception:
    """Which of two refusals the sender is told: one that asks to retry, else the first."""
    return second if first is None or (isinstance(second, Overloaded) and not isinstance(first, Overloaded)) else first


def _state(authenticator: Reporting) -> dict[str, Any]:
    try:
        return authenticator.info()
    except Exception as e:  # it must not hide that of the source
        log_unexpected(log, "the state of an authenticator", e)
        return {"error": "the authenticator can't tell its state"}


def _nobody(request: Message) -> None:
    return None


def mark(event: Event, who: Identity) -> None:
    """Writes the sender into the event (CloudEvents extension "Auth Context"), in place of what it says itself, however
    its version spells that."""
    attributes: dict[str, Any] = event.attributes
    if "specversion" not in attributes:
        attributes = event.attributes = without_names(attributes, _MARKS)
    attributes["authtype"] = who.type
    attributes.pop("authclaims", None)
    if who is ANONYMOUS:
        attributes.pop("authid", None)
    else:
        attributes["authid"] = who.subject


def gate_of(options: AccessConfig, context: BuildContext, counts: Counts | None = None) -> Gate | None:
    """The gate of an ingress; None if its options check nothing."""
    return Gate(options, context, counts) if options.guarded else None
