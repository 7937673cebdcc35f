"""Policies as resources, and what the status of a broker says of them.

Source: Knative Eventing, pkg/apis/eventing/v1alpha1/eventpolicy_lifecycle.go (the conditions of an EventPolicy),
pkg/apis/eventing/v1/broker_lifecycle.go and pkg/apis/duck/v1/auth_types.go (`EventPoliciesReady`, `status.policies`).
"""

from __future__ import annotations

from typing import Any

from gateway_access.config import AccessConfig
from gateway_access.policies import SECTION, PolicyConfig, policies_of, takes_senders
from gateway_access.policy import subjects_of

from gateway_core.contract.condition import Condition
from gateway_core.contract.config_model import GatewayConfig

POLICIES = SECTION
AUTHENTICATION, SUBJECTS, OF_BROKER = "AuthenticationEnabled", "SubjectsResolved", "EventPoliciesReady"
_EVENT_POLICY = "EventPolicy"
_VERSION = "eventing.knative.dev/v1alpha1"
Typed = tuple[str, Condition]
"""A condition and its type."""


def brokers_of(policy: PolicyConfig, config: GatewayConfig) -> list[str]:
    """The names of the brokers that a policy is about."""
    return list(config.brokers) if policy.brokers == "all" else list(policy.brokers)


def of_policy(policy: PolicyConfig, config: GatewayConfig) -> list[Typed]:
    """The conditions of a policy that runs, besides `Ready`. Subjects that nobody can know are faults of the config, so
    that a policy with such never runs."""
    return [(AUTHENTICATION, _authentication(policy, config)), (SUBJECTS, Condition(True, "", "Resolved"))]


def ready(policy: PolicyConfig, config: GatewayConfig) -> Condition:
    """The condition `Ready` of a policy that runs: it sums up the others."""
    for _, condition in of_policy(policy, config):
        if condition.ready is not True:
            return condition
    return Condition(True, "", "Enforced")


def _authentication(policy: PolicyConfig, config: GatewayConfig) -> Condition:
    without = []
    for broker in brokers_of(policy, config):
        found = config.brokers.get(broker)  # none if it could not be started
        doors = [ref.options for ref in found.ingress if takes_senders(ref)] if found is not None else []
        if not doors:
            without.append(broker)
        elif not all(isinstance(options, AccessConfig) and options.authenticate for options in doors):
            text = f"an ingress of `{broker}` does not find out who sends: there, only `anonymous` may"
            return Condition(True, text, "Anonymous")
    if without:
        names = ", ".join(f"`{name}`" for name in without)
        return Condition(None, f"no ingress of {names} lets senders in", "NoSenders")
    return Condition(True, "", "Enabled")


def status_of_policy(policy: PolicyConfig, config: GatewayConfig) -> dict[str, Any]:
    """What the status of a policy has besides its conditions."""
    return {"brokers": brokers_of(policy, config), "from": subjects_of(policy)}


def of_broker(name: str, config: GatewayConfig) -> Typed:
    """Whether the policies of a broker run. Those that could not be read are faults of the config."""
    found = policies_of(config, name)
    if not found:
        return OF_BROKER, Condition(True, "no policy: it takes what its ingress lets in", "NoPolicy")
    kinds = {policy.origin.kind for policy in found.values() if policy.origin is not None}
    if kinds - {_EVENT_POLICY}:
        mode = "from the default authorization mode"
        return OF_BROKER, Condition(True, mode, "DefaultAuthorizationMode")
    return OF_BROKER, Condition(True, "", "Enforced")


def applied(name: str, config: GatewayConfig) -> list[dict[str, str | None]]:
    """The policies of a broker, as Knative's `status.policies`. `id` is the name in our config."""
    return [
        {
            "apiVersion": _VERSION if policy.origin is not None and policy.origin.kind == _EVENT_POLICY else None,
            "name": policy.origin.name if policy.origin is not None else key,
            "id": key,
        }
        for key, policy in sorted(policies_of(config, name).items())
    ]
