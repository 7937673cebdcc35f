"""One gateway for all tests of the source: it takes a second to start, and each test makes calls of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gateway_testing import GatewayProcess, Received, Subscriber

from tests.fn.functions import event_in

Answering = Callable[[dict[str, Any]], Any]


def no_event(event: dict[str, Any]) -> Any:
    return 204


class Rig:
    """A gateway with three ways in to one function: `fn` (events of 0.1), `one` (1.0) and `hasty` (a short deadline,
    small bodies). What the function returns goes to `published`, and errors to `errors`. `answer` is what the function
    does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.answer: Answering = no_event
        self.function = Subscriber(decide=self._decide)
        self.published = Subscriber()
        self.errors = Subscriber()
        self.gateway = GatewayProcess(self._config(), folder)
        self.fn = self.one = self.hasty = ""

    def _decide(self, received: Received) -> Any:
        return self.answer(event_in(received))

    def _config(self) -> str:
        to = f'listen: "127.0.0.1:0", hosts: ["*"], function: "{self.function.url}"'
        return f"""
brokers:
  default:
    ingress:
      - fn: {{{to}, path: /t/}}
      - fn: {{{to}, path: /one, version: "1.0", public_url: "https://f.example/t/"}}
      - fn: {{{to}, timeout_s: 0.2, max_body_bytes: 1024}}
triggers:
  published: {{subscriber: {{http: {{url: "{self.published.url}", codec: fn}}}}}}
  errors:
    filter: {{eventType: io.fnproject.fnError}}
    subscriber: {{http: {{url: "{self.errors.url}", codec: fn}}}}
"""

    def counts(self) -> dict[str, Any]:
        """The broker's part of the status."""
        broker: dict[str, Any] = self.gateway.status()["brokers"][0]
        return broker

    def called(self) -> dict[str, Any]:
        """The event that the function was called with last."""
        return event_in(self.function.requests[-1])

    def found(self, wanted: Callable[[dict[str, Any]], bool], at: Subscriber | None = None) -> dict[str, Any]:
        """The first event of this kind that comes out of the broker."""
        subscriber = at or self.published

        def events() -> list[dict[str, Any]]:
            return [e for e in map(event_in, list(subscriber.requests)) if wanted(e)]

        self.gateway.wait_until(events, what="an event to be published")
        return events()[0]


@pytest.fixture(scope="module")
def shared_rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    rig = Rig(tmp_path_factory.mktemp("fn"))
    with rig.function, rig.published, rig.errors, rig.gateway:
        rig.fn, rig.one, rig.hasty = rig.counts()["ingress"]
        yield rig


@pytest.fixture
def rig(shared_rig: Rig) -> Rig:
    shared_rig.answer = no_event
    return shared_rig
