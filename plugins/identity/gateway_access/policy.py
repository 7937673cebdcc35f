"""Who may send what: entries of which at least one must allow each event.

An entry never allows by accident: what can't be evaluated (a filter that raises, a claim of another type) does not
allow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StrictBool, StrictInt, StrictStr, field_validator, model_validator

from gateway_core.contract.authenticator import Forbidden
from gateway_core.contract.component import BuildContext, Config, FilterRef
from gateway_core.contract.component_errors import Errors
from gateway_core.contract.event import Event
from gateway_core.contract.event_data import Unreadable, UnreadableData
from gateway_core.contract.filters import every
from gateway_core.contract.identity import Identity
from gateway_core.contract.interfaces import Filter
from gateway_core.contract.normal_form import normal_form
from gateway_core.contract.one_line import one_line
from gateway_core.contract.owner import within

ANONYMOUS_WORD = "anonymous"
"""The word in `from` for senders without credentials. Nothing else there stands for them, not even `*`."""
Verdict = Literal["allows", "other senders", "other events"]
"""What an entry says to an event: it lets it in, or it is about other senders, or its filters don't match."""
_MOST_SUBJECT = 100
_ALWAYS = every(())


def _subject(text: str) -> str:
    if not text:
        raise ValueError("a subject can't be empty; write a subject, or `*` for every sender with credentials")
    if "*" in text[:-1]:
        raise ValueError("`*` may only be the last character")
    return text


Subject = Annotated[str, AfterValidator(_subject)]
Claim = StrictStr | StrictBool | StrictInt
Claims = Annotated[list[Claim], Field(min_length=1)]


class AllowConfig(Config):
    """Allows events. All keys that are given must fit."""

    subjects: list[Subject] | None = Field(default=None, alias="from")
    """Who may send, by subject. A `*` at the end stands for any rest, as in Knative; `*` alone is every sender with
    credentials. `anonymous` is every sender without: nothing else lets those in. Without this key: every sender
    with credentials; an empty list: nobody."""
    authenticator: str | None = None
    """Which authenticator must have proved the subject, such as `oidc`. By default any."""
    claims: dict[str, Claim | Claims] = {}
    """Claims that the sender must have, each with its value or a list of possible values. A claim that is
    a list matches if one of its items does. Dots select nested claims (`realm_access.roles`), unless a claim has
    exactly that name."""
    filters: list[FilterRef] = []
    """Filters that the event must match, all of them."""

    @field_validator("subjects", mode="before")
    @classmethod
    def _no_list(cls, value: Any) -> Any:
        if value is None:
            raise ValueError("expected a list, found nothing; `[]` is nobody, and without the key it is everyone known")
        return value

    @field_validator("authenticator", mode="before")
    @classmethod
    def _no_name(cls, value: Any) -> Any:
        if value is None:
            raise ValueError("expected text, found nothing; without the key, any authenticator counts")
        return value

    @model_validator(mode="after")
    def _says_something(self) -> AllowConfig:
        if self.subjects is None and self.authenticator is None and not self.claims and not self.filters:
            raise ValueError('it does not say whom it allows; write `from: ["*"]` for every sender with credentials')
        return self


class Policies:
    """Entries of `allow`, compiled. `owners` are their paths in the config, by default below the context's owner."""

    def __init__(
        self, allow: Sequence[AllowConfig], context: BuildContext, owners: Sequence[str] | None = None
    ) -> None:
        owners = owners or [within(context.owner, f".allow[{i}]") for i in range(len(allow))]
        self._entries = [
            _entry(config, _matches(config, context, owner), owner) for config, owner in zip(allow, owners, strict=True)
        ]

    def refusal(self, events: Sequence[Event]) -> Forbidden | None:
        """Why these events, which arrived together, may not come in; None if all of them may."""
        who: object = self  # no event's sender
        filters: Sequence[Callable[[Event], bool]] = ()
        for number, event in enumerate(events):
            if event.identity is not who:
                who = event.identity
                filters = self._filters_for(event.identity)
            normal = normal_form(event)
            for allows in filters:
                if allows(normal):
                    break
            else:
                return _forbidden(event, number, len(events))
        return None

    def knows(self, who: Identity) -> Forbidden | None:
        """Why this sender may send nothing at all, None if there are events that it may send."""
        return None if any(entry.fits(who) for entry in self._entries) else Forbidden(f"{_name(who)} may not send here")

    def verdicts(self, event: Event) -> list[tuple[str, Verdict]]:
        """What each entry says to an event, by the entry's path in the config."""
        who, event = event.identity, normal_form(event)
        return [
            (e.owner, "other senders" if not e.fits(who) else "allows" if e.matches(event) else "other events")
            for e in self._entries
        ]

    def _filters_for(self, who: Identity | None) -> Sequence[Callable[[Event], bool]]:
        """The conditions of the entries that fit a sender. An event that fulfils one of them is allowed."""
        found = [entry.matches for entry in self._entries if entry.fits(who)]
        return (_ALWAYS,) if _ALWAYS in found else found


def is_anonymous(who: Identity | None) -> bool:
    """Whether a sender has proved nothing. A subject that an authenticator vouches for never is, whatever its name."""
    return who is None or not who.authenticator


def _forbidden(event: Event, number: int, of: int) -> Forbidden:
    text = f"{_name(event.identity)} may not send this event here"
    return Forbidden(f"event {number} of the batch: {text}" if of > 1 else text)


def _name(who: Identity | None) -> str:
    if who is None or is_anonymous(who):
        return "a sender without credentials"
    return f"`{one_line(who.subject, _MOST_SUBJECT)}`"


# -- an entry -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Entry:
    """One entry. `matches` is `_ALWAYS` if it has no filters, `owner` its path in the config."""

    owner: str
    anonymous: bool
    everyone: bool
    exact: frozenset[str]
    prefixes: tuple[str, ...]
    authenticator: str | None
    claims: tuple[Callable[[Mapping[str, Any]], bool], ...]
    matches: Callable[[Event], bool]

    def fits(self, who: Identity | None) -> bool:
        """Whether the entry is about this sender."""
        if who is None or not who.authenticator:
            return self.anonymous
        subject = who.subject
        if not (self.everyone or subject in self.exact or subject.startswith(self.prefixes)):
            return False
        if self.authenticator is not None and self.authenticator != who.authenticator:
            return False
        return all(holds(who.claims) for holds in self.claims)


def about(config: AllowConfig) -> Callable[[Identity], bool]:
    """Whether an entry, but for its filters, is about a sender."""
    return _entry(config, _ALWAYS, "").fits


def is_about(config: AllowConfig, who: Identity) -> bool:
    """`about` for one sender. The entry is compiled by each call."""
    return about(config)(who)


def subjects_of(config: AllowConfig) -> list[str]:
    """The subjects that an entry is about, as in `from`."""
    return ["*"] if config.subjects is None else config.subjects


def _entry(config: AllowConfig, matches: Callable[[Event], bool], owner: str) -> _Entry:
    subjects = subjects_of(config)
    prefixes = tuple(text[:-1] for text in subjects if text.endswith("*") and text != "*")
    return _Entry(
        owner=owner,
        # who proved nothing has neither an authenticator nor claims
        anonymous=ANONYMOUS_WORD in subjects and config.authenticator is None and not config.claims,
        everyone="*" in subjects,
        exact=frozenset(text for text in subjects if not text.endswith("*") and text != ANONYMOUS_WORD),
        prefixes=prefixes,
        authenticator=config.authenticator,
        claims=tuple(_claim(name, value) for name, value in config.claims.items()),
        matches=matches,
    )


def _claim(name: str, wanted: Any) -> Callable[[Mapping[str, Any]], bool]:
    values = wanted if isinstance(wanted, list) else [wanted]
    pairs = frozenset((type(value), value) for value in values)  # with the type: True equals 1
    path = name.split(".")

    def is_wanted(value: Any) -> bool:
        return type(value) in (str, int, bool) and (type(value), value) in pairs

    def holds(claims: Mapping[str, Any]) -> bool:
        found: Any = claims
        for key in (name,) if name in claims else path:
            if not isinstance(found, Mapping) or key not in found:
                return False
            found = found[key]
        if isinstance(found, list | tuple):
            return any(is_wanted(item) for item in found)
        return is_wanted(found)

    return holds


# -- its filters ----------------------------------------------------------------------------------------------------


def _matches(config: AllowConfig, context: BuildContext, owner: str) -> Callable[[Event], bool]:
    return every([_filter(ref, context, within(owner, f".filters[{i}]")) for i, ref in enumerate(config.filters)])


class _Unread(UnreadableData):
    """Whether a filter could not look at an event's data."""

    __slots__ = ("found",)

    def __init__(self) -> None:
        super().__init__()
        self.found = False

    def count(self, event: Event, found: Unreadable) -> None:
        self.found = self.found or bool(found.reason)


def _filter(ref: FilterRef, context: BuildContext, owner: str) -> Callable[[Event], bool]:
    """The filter, which does not match if it raises, or if it could not look at the event's data: that is no match, but
    one that is negated would allow what nobody has read."""
    unread = _Unread()
    built: Filter = context.registry.build(ref, replace(context, owner=owner, place=(), unreadable=unread))
    matches = built.matches

    def read(event: Event) -> bool:
        unread.found = False
        return matches(event) is True and not unread.found

    return closed(read, Errors(owner))


def closed(matches: Callable[[Event], bool], errors: Errors) -> Callable[[Event], bool]:
    """A condition that does not hold where the original raises or returns no Boolean."""

    def guarded(event: Event) -> bool:
        try:
            return matches(event) is True
        except KeyboardInterrupt:
            raise
        except BaseException as e:  # also `SystemExit`, and the panics of libraries in Rust
            errors.note("the event is not allowed", e)
            return False

    return guarded
