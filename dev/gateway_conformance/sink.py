"""The subscriber behind the broker: answers by the event's id."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from types import TracebackType

from gateway_testing.arrival import Arrival, read
from gateway_testing.subscriber import Answer, Received, Subscriber

Script = Answer


class Sink:
    """`with Sink(port) as sink:` listens on loopback. With a `main` path, requests to others are those of other
    triggers: they are counted by path, and are no arrivals."""

    def __init__(self, port: int, main: str = "") -> None:
        self._main = main
        self._elsewhere: dict[tuple[str, str], int] = {}
        self._other_scripts: dict[tuple[str, str], list[Answer]] = {}
        self._changed = threading.Condition()
        self._arrivals: dict[str, list[Arrival]] = {}
        self._scripts: dict[str, tuple[list[Answer], Answer]] = {}
        self.odd: list[Received] = []  # requests that carry no event
        self._subscriber = Subscriber(decide=self._decide, port=port)

    def __enter__(self) -> Sink:
        self._subscriber.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        self._subscriber.close()

    @property
    def url(self) -> str:
        return self._subscriber.url

    def script(self, id: str, answers: Iterable[Answer], then: Answer = 202, at: str = "") -> None:
        """How deliveries of an event are answered: one by one, then with `then`. Others are answered 202. `at` is
        another path than the main one; there, 202 is what follows."""
        with self._changed:
            if at not in ("", self._main):
                self._other_scripts[at, id] = list(answers)
                return
            self._scripts[id] = (list(answers), then)

    def wait(self, id: str, count: int, timeout_s: float) -> list[Arrival]:
        """The deliveries of an event, once there are `count`; what there is when the time is up."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._arrivals.get(id, ())) >= count, timeout_s)
            return list(self._arrivals.get(id, ()))

    def came(self, path: str, id: str, count: int = 0, until: float = 0.0) -> int:
        """How often an event came to a path, once it did so `count` times, or at `until` on the monotonic clock."""

        def number() -> int:
            return len(self._arrivals.get(id, ())) if path == self._main else self._elsewhere.get((path, id), 0)

        with self._changed:
            self._changed.wait_for(lambda: number() >= count, max(0.0, until - time.monotonic()))
            return number()

    def got(self, id: str) -> list[Arrival]:
        """The deliveries of an event so far."""
        return self.wait(id, 0, 0)

    def _decide(self, request: Received) -> Answer:
        arrival = read(request)
        with self._changed:
            if self._main and request.path not in (self._main, "/redirected"):
                at = (request.path, arrival.attributes.get("id", ""))
                self._elsewhere[at] = self._elsewhere.get(at, 0) + 1
                self._changed.notify_all()
                script = self._other_scripts.get(at)
                return script.pop(0) if script else 202
            if not arrival.mode:
                self.odd.append(request)
                return 202
            id = arrival.attributes.get("id", "")
            self._arrivals.setdefault(id, []).append(arrival)
            self._changed.notify_all()
            answers, then = self._scripts.get(id, ([], 202))
            return answers.pop(0) if answers else then
