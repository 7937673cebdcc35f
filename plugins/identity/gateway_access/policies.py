"""The section `policies`: who may send what to which brokers.

A broker that no policy names takes what its ingress lets in. Of those that name it, at least one must allow each event
(Knative's rule for an `EventPolicy`). Policies are about senders: sources that fetch their events know none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field

from gateway_core.contract.admission import Verdict
from gateway_core.contract.authenticator import Forbidden
from gateway_core.contract.capabilities import Listening
from gateway_core.contract.component import BuildContext, SourceRef
from gateway_core.contract.config_extension import ConfigFinding
from gateway_core.contract.config_model import EntryConfig, GatewayConfig
from gateway_core.contract.config_node import Place
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event
from gateway_core.contract.faults import near
from gateway_core.contract.interfaces import Admission

from .config import AccessConfig
from .denials import recorder
from .policy import ANONYMOUS_WORD, AllowConfig, Policies, subjects_of

SECTION = "policies"


class PolicyConfig(AllowConfig, EntryConfig):
    """Says which senders may send which events to brokers. All keys that are given must fit."""

    brokers: Annotated[list[str], Field(min_length=1)] | Literal["all"]
    """The brokers by name, or `all`. Once a policy names a broker, an event needs a policy that allows it."""


def policies_of(config: GatewayConfig, broker: str) -> dict[str, PolicyConfig]:
    """The policies of a broker, by name."""
    entries: Mapping[str, PolicyConfig] = config.section(SECTION)
    return {name: policy for name, policy in entries.items() if policy.brokers == "all" or broker in policy.brokers}


def compiled(entries: Mapping[str, PolicyConfig], context: BuildContext) -> Policies:
    """Policies of the section, ready for events."""
    return Policies(list(entries.values()), context, [f"{SECTION}.{name}" for name in entries])


def admission(config: GatewayConfig, ref: SourceRef, context: BuildContext) -> Admission | None:
    """The check of events from this source of a broker; None if no policy is about them."""
    if context.place[:1] != ("brokers",):
        return None
    found = policies_of(config, context.broker)
    if not found:
        return None
    if not takes_senders(ref):
        return None
    admit = compiled(found, context).refusal if isinstance(ref.options, AccessConfig) else _closed
    return _audited(admit, context)


def _audited(admission: Admission, context: BuildContext) -> Admission:
    """The same, with what it refuses in the audit log, unless the ingress has a gate: that one also knows the address
    (`Gate.hearing`)."""
    denied = recorder(context)

    def admit(events: Sequence[Event]) -> Verdict:
        verdict = admission(events)
        if isinstance(verdict, Refused) and events[0].identity is None:
            denied(None, None, verdict)
        return verdict

    return admit


def _closed(events: Sequence[Event]) -> Refused | None:
    return Forbidden("this ingress can't find out who sends, and its broker has policies")


def takes_senders(ref: SourceRef) -> bool:
    """Whether senders come to this source. Others fetch their events."""
    return isinstance(ref.options, Listening) and bool(ref.options.listen)


# -- checks ---------------------------------------------------------------------------------------------------------


def check(config: GatewayConfig) -> Iterator[ConfigFinding]:
    """Policies that can't be kept, and ingresses where no sender could fulfil any."""
    entries: Mapping[str, PolicyConfig] = config.section(SECTION)
    for name, policy in entries.items():
        for i, broker in enumerate(policy.brokers if isinstance(policy.brokers, list) else ()):
            if broker not in config.brokers:
                others = ", ".join(f"`{b}`" for b in config.brokers) or "none"
                remedy = near(broker, config.brokers) or f"brokers here: {others}"
                yield ConfigFinding(f"there is no broker `{broker}`", (SECTION, name, "brokers", i), remedy)
    for name, found in config.brokers.items():
        policies = policies_of(config, name)
        for i, ref in enumerate(found.ingress):
            place = ("brokers", name, "ingress", i)
            yield from _own(ref, place)
            if policies:
                yield from _of_broker(ref, place, name, policies)
    for name, bridge in config.bridges.items():
        yield from _own(bridge.source, ("bridges", name, "source"))


def _own(ref: SourceRef, place: Place) -> Iterator[ConfigFinding]:
    """Of the entries of an ingress itself."""
    options = ref.options
    if isinstance(options, AccessConfig) and options.allow and not possible(options.allow, options):
        yield ConfigFinding(
            "no sender can fulfil any entry of `allow`: this ingress does not find out who sends",
            (*place, ref.name, "allow"),
            _remedy(options),
        )


def _of_broker(
    ref: SourceRef, place: Place, broker: str, policies: Mapping[str, PolicyConfig]
) -> Iterator[ConfigFinding]:
    options = ref.options
    if options is None:
        return  # a fault of its own
    names = ", ".join(f"`{name}`" for name in policies)
    if isinstance(options, AccessConfig) and takes_senders(ref):
        if not possible(list(policies.values()), options):
            message = f"no sender can fulfil a policy of the broker `{broker}` ({names}) here: this ingress does not"
            yield ConfigFinding(f"{message} find out who sends", place, _remedy(options))
    elif takes_senders(ref):
        message = f"`{ref.name}` can't find out who sends, and the broker `{broker}` has policies ({names})"
        yield ConfigFinding(message, place, "use an ingress with `authenticate`, or another broker")
    else:
        message = f"events from `{ref.name}` have no sender: the policies of the broker `{broker}` don't apply to them"
        yield ConfigFinding(message, place, "restrict who may write to what it reads", warning=True)


def _remedy(options: AccessConfig) -> str:
    if options.authenticate:
        return "add the authenticator that the policies name to `authenticate`"
    return f"add `authenticate`, or a policy with `{ANONYMOUS_WORD}` in its `from`"


def possible(entries: Sequence[AllowConfig], options: AccessConfig) -> bool:
    """Whether a sender can exist whom one of these entries allows here. Entries that allow nobody on purpose count."""
    if all(entry.subjects == [] for entry in entries):
        return True
    names = {ref.name for ref in options.authenticate}
    open_to_all = options.anonymous if options.anonymous is not None else not names
    for entry in entries:
        subjects = subjects_of(entry)
        if open_to_all and ANONYMOUS_WORD in subjects and entry.authenticator is None and not entry.claims:
            return True
        known = entry.authenticator in names if entry.authenticator is not None else bool(names)
        if known and any(subject != ANONYMOUS_WORD for subject in subjects):
            return True
    return False
