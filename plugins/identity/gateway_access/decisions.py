"""Who would be let in with an event, and by which entry: what the gate of each ingress and the policies of its broker
would say. For `explain`; the compiled policies are those that events meet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gateway_core.contract.component import BuildContext, SourceRef
from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.config_node import Place, dotted
from gateway_core.contract.event import Event
from gateway_core.contract.identity import ANONYMOUS, Identity

from .config import AccessConfig
from .gate import mark
from .policies import compiled, policies_of, takes_senders
from .policy import ANONYMOUS_WORD, Policies
from .subjects import may_give_out


@dataclass(frozen=True)
class Sender:
    """Whom to ask about. `anonymous` is who has no credentials. Without an authenticator, each that an ingress has is
    taken for the one that proved the subject."""

    subject: str
    authenticator: str = ""
    claims: Mapping[str, Any] = field(default_factory=dict)


def decisions(config: GatewayConfig, context: BuildContext, sender: Sender, event: Event, broker: str | None) -> Any:
    """One decision, as JSON values, for each ingress (only of this broker or bridge, if given) and authenticator."""
    sources: list[tuple[Place, str, SourceRef]] = [
        (("brokers", name, "ingress", i), name, ref)
        for name, found in config.brokers.items()
        for i, ref in enumerate(found.ingress)
    ]
    sources += [(("bridges", name, "source"), "", bridge.source) for name, bridge in config.bridges.items()]
    return [
        {"ingress": dotted(place), "subject": sender.subject, **decision}
        for place, owner, ref in sources
        if broker in (None, place[1])
        for decision in _at(ref, replace(context, owner=dotted(place)), config, owner, sender, event)
    ]


def _at(
    ref: SourceRef, context: BuildContext, config: GatewayConfig, broker: str, sender: Sender, event: Event
) -> Iterator[dict[str, Any]]:
    options = ref.options
    policies = compiled(found, context) if (found := policies_of(config, broker)) else None
    if not takes_senders(ref):
        yield _decision("", None, "it fetches its events: they have no sender, and policies don't apply")
    elif not isinstance(options, AccessConfig):
        closed = "it can't find out who sends, and its broker has policies"
        yield _decision("", policies is None, closed if policies else "it does not ask who sends")
    else:
        own = Policies(options.allow, context) if options.allow else None
        for who in _identities(options, sender):
            yield _decided(options, sender, who, (own, policies), event)


def _identities(options: AccessConfig, sender: Sender) -> Iterator[Identity | None]:
    """Who the sender is at an ingress; None if it can't be let in as anybody."""
    names = list(dict.fromkeys(ref.name for ref in options.authenticate))
    if sender.subject == ANONYMOUS_WORD and not sender.authenticator:
        open_to_all = options.anonymous if options.anonymous is not None else not names
        yield ANONYMOUS if open_to_all else None
    elif not names:
        yield ANONYMOUS  # whatever it shows, nobody looks at it
    else:
        names = [name for name in names if sender.authenticator in ("", name) and may_give_out(name, sender.subject)]
        for name in names:
            yield Identity(sender.subject, name, claims=sender.claims)
        if not names:
            yield None


def _decided(
    options: AccessConfig,
    sender: Sender,
    who: Identity | None,
    policies: tuple[Policies | None, Policies | None],
    event: Event,
) -> dict[str, Any]:
    if who is None and sender.subject == ANONYMOUS_WORD:
        return _decision("", False, "the request has no credentials", 401)
    if who is None:
        return _decision("", False, "no authenticator here knows such a sender", 401)
    event = event.with_attributes()
    event.identity = who
    if options.auth_context:
        mark(event, who)
    asked = [found for found in policies if found is not None]
    refusal = next((r for found in asked if (r := found.refusal((event,))) is not None), None)
    entries = [{"entry": owner, "verdict": verdict} for found in asked for owner, verdict in found.verdicts(event)]
    if refusal is not None:
        return _decision(who.authenticator, False, refusal.detail, 403, entries)
    reason = "" if asked else "no `allow` and no policy is about it"
    if not who.authenticator and options.authenticate == []:
        reason = "the ingress does not find out who sends" + (f"; {reason}" if reason else "")
    return _decision(who.authenticator, True, reason, 202, entries)


def _decision(
    authenticator: str, allowed: bool | None, reason: str, status: int | None = None, entries: Any = ()
) -> dict[str, Any]:
    return {
        "authenticator": authenticator or None,
        "allowed": allowed,
        "status": status if status is not None else {True: 202, False: 403, None: None}[allowed],
        "reason": reason,
        "entries": list(entries),
    }
