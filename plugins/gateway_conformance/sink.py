"""The subscriber behind the broker: answers by the event's id, and reads events without our own codec."""

from __future__ import annotations

import json
import threading
from base64 import b64decode
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from urllib.parse import unquote

from gateway_core.event import text_of
from gateway_core.testing.subscriber import Answer, Received, Subscriber

Script = Answer


@dataclass(frozen=True, slots=True)
class Arrival:
    """One delivery. `attributes` are text, percent-decoded; `mode` is "binary" or "structured", "" where the request is
    no CloudEvent."""

    request: Received
    mode: str
    attributes: dict[str, str]
    data: bytes

    @property
    def time(self) -> float:
        return self.request.time


class Sink:
    """`with Sink(port) as sink:` listens on loopback."""

    def __init__(self, port: int) -> None:
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

    def script(self, id: str, answers: Iterable[Answer], then: Answer = 202) -> None:
        """How deliveries of an event are answered: one by one, then with `then`. Others are answered 202."""
        with self._changed:
            self._scripts[id] = (list(answers), then)

    def wait(self, id: str, count: int, timeout_s: float) -> list[Arrival]:
        """The deliveries of an event, once there are `count`; what there is when the time is up."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._arrivals.get(id, ())) >= count, timeout_s)
            return list(self._arrivals.get(id, ()))

    def got(self, id: str) -> list[Arrival]:
        """The deliveries of an event so far."""
        return self.wait(id, 0, 0)

    def _decide(self, request: Received) -> Answer:
        arrival = read(request)
        with self._changed:
            if not arrival.mode:
                self.odd.append(request)
                return 202
            id = arrival.attributes.get("id", "")
            self._arrivals.setdefault(id, []).append(arrival)
            self._changed.notify_all()
            answers, then = self._scripts.get(id, ([], 202))
            return answers.pop(0) if answers else then


def read(request: Received) -> Arrival:
    """The event in a request (CloudEvents HTTP binding 1.0.2, section 3)."""
    kind = request.headers.get("content-type", "")
    if kind.lower().startswith("application/cloudevents"):
        try:
            return _structured(request, json.loads(request.body))
        except (ValueError, TypeError, AttributeError):
            return Arrival(request, "", {}, request.body)
    attributes = {}
    for name, value in request.headers.items():
        if name.startswith("ce-"):
            raw = value.encode("latin-1")  # http.server reads headers as Latin-1; senders may write UTF-8 unencoded
            attributes[name[3:]] = unquote(raw.decode(errors="replace"))
    if not attributes:
        return Arrival(request, "", {}, request.body)
    if kind:
        attributes["datacontenttype"] = kind
    return Arrival(request, "binary", attributes, request.body)


def _structured(request: Received, document: dict[str, Any]) -> Arrival:
    data = document.pop("data", None)
    coded = document.pop("data_base64", None)
    attributes = {name: text_of(value) for name, value in document.items() if value is not None}
    if coded is None and attributes.get("datacontentencoding") == "base64":
        coded = data
        del attributes["datacontentencoding"]
    if coded is not None:
        body = b64decode(coded)
    elif data is None:
        body = b""
    elif isinstance(data, str) and "json" not in attributes.get("datacontenttype", "json"):
        body = data.encode()
    else:
        body = json.dumps(data).encode()
    return Arrival(request, "structured", attributes, body)
