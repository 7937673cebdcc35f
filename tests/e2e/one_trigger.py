"""A gateway with one broker and one trigger, events for it, and what its subscriber got."""

from __future__ import annotations

from gateway_testing import GatewayProcess, Subscriber

from tests import web
from tests.ledger import body_of, free_port, headers

_BROKER = """
brokers:
  default:
    ingress:
      - http: {listen: "127.0.0.1:PORT"}
triggers:
"""


def broker() -> str:
    """A config up to its triggers, on a port that several workers can share."""
    return _BROKER.replace("PORT", str(free_port()))


def config_for(subscriber: Subscriber) -> str:
    """`broker` with one trigger for all events."""
    return f"{broker()}  all: {{subscriber: {subscriber.url}}}\n"


def send(gateway: GatewayProcess, numbers: range) -> None:
    """Each on a connection of its own, so that several workers get some."""
    for number in numbers:
        answer = web.post(gateway.ingress(), content=body_of(number), headers=headers(number), verify=False)
        answer.raise_for_status()


def numbers(subscriber: Subscriber) -> set[int]:
    return {int(request.headers["ce-id"]) for request in subscriber.requests}
