"""The sink `nats`: each event becomes one message, delivered when a stream has stored it.

With `jetstream: false` it is core NATS: delivered means that the server has read the message, whoever listens.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from urllib.parse import quote

from anyio.abc import TaskGroup
from gateway_options.template import is_fixed, name_of
from gateway_transport.messages import writer
from nats.aio.msg import Msg

from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message, text_of
from gateway_core.contract.interfaces import DELIVERED, Outcome
from gateway_core.contract.one_line import one_line
from gateway_core.contract.outcome import short, unwritable
from gateway_core.contract.shortage import no_descriptor_left

from .binding import NATS, headers_of
from .client import Link, json_of
from .config import SUBJECTS, NatsSinkConfig
from .connect import check_keys
from .streams import ensure_stream

_SAFE = "".join(chr(c) for c in range(0x21, 0x7F) if chr(c) != "%")
TOO_LARGE = frozenset({10054, 10097})
"""The server's error codes for a message, or its headers, that the stream never takes."""
NEVER = TOO_LARGE | {10060}  # another stream than `Nats-Expected-Stream` says
_NO_STREAM = "no stream has the subject, or JetStream is not available"


class NatsSink:
    """`gateway_core.contract.interfaces.Sink`."""

    in_flight = 2000

    def __init__(self, options: NatsSinkConfig, context: BuildContext) -> None:
        check_keys(options, context)
        self._options = options
        self._write = writer(options.codec, NATS, context)
        self._subject_of = _subject_of(options.subject)
        self._expected = {"Nats-Expected-Stream": options.stream} if options.stream else {}
        self._identified = options.message_id and options.jetstream
        self._server = options.servers[0]
        self.address = f"{self._server}/{options.visible('subject')}"
        self._link = Link(options, context.owner, context.clock, self._begin)
        self._request = self._link.request if options.jetstream else self._link.publish

    async def start(self, tasks: TaskGroup) -> None:
        """Connects, and makes or checks the stream if the config describes it. Raises `StartError` if the server
        refuses the credentials, or the stream is not as configured."""
        await self._link.start(tasks)

    async def stop(self) -> None:
        await self._link.stop()

    async def _begin(self) -> None:
        if self._options.create is not None and self._options.stream is not None:
            await ensure_stream(self._link.js, self._options.stream, self._options.create)

    def _message(self, event: Event) -> tuple[str, bytes, dict[str, str]]:
        subject = self._subject_of(event)
        message = self._write(event)
        headers = headers_of(message)
        if self._identified:
            headers["Nats-Msg-Id"] = message_id(event, subject)
        headers.update(self._expected)
        return subject, message.body or b"", headers

    def preview(self, event: Event) -> Message:
        subject, payload, headers = self._message(event)
        shown = [(name.encode(), value.encode()) for name, value in headers.items()]
        return Message(shown, payload, url=f"{self._server}/{subject}")

    def send(self, event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
        try:
            subject, payload, headers = self._message(event)
        except Refused as e:
            done(unwritable(e))
            return
        size = size_of(payload, headers)
        if size > self._link.max_payload:
            most = self._link.max_payload
            done(Outcome(False, reason=f"the message has {size} bytes; the server takes {most} (max_payload)"))
        else:
            self._request(subject, payload, headers, timeout_s, lambda answer, why: done(outcome_of(answer, why)))


def size_of(payload: bytes, headers: dict[str, str]) -> int:
    """The bytes of a message as the server counts them."""
    return len(payload) + sum(map(len, headers)) + sum(map(len, headers.values())) + 4 * len(headers) + 12


def outcome_of(answer: Msg | None, why: str, never: Container[int] = NEVER) -> Outcome:
    """What the answer to a publication means. Only what the stream will never take (error codes in
    `never`) is not retried."""
    if answer is None:
        if not why:
            return DELIVERED
        return short(why) if no_descriptor_left() else Outcome(False, retry=True, reason=why)
    data = answer.data
    if b'"stream"' in data and b'"error"' not in data:
        return DELIVERED
    if answer.headers and answer.headers.get("Status") == "503":
        return Outcome(False, retry=True, code=503, reason=_NO_STREAM)
    error = json_of(data).get("error")
    if not isinstance(error, dict):
        if json_of(data).get("stream"):
            return DELIVERED
        return Outcome(False, retry=True, reason="what answered is not a stream")
    code = error.get("code")
    code = code if isinstance(code, int) else 500
    fault = error.get("err_code")
    reason = f"{error.get('description') or 'refused'} ({fault or code})"
    return Outcome(False, retry=fault not in never, code=code, reason=one_line(reason))


def message_id(event: Event, subject: str) -> str:
    """The `Nats-Msg-Id` of an event: source, id and type (some senders number the events of each type by itself), and
    the subject, because a stream compares the messages of all its subjects. That of a dead letter has its trigger too:
    two triggers may fail with one event."""
    attributes = event.attributes
    named = [text_of(attributes.get(name, "")) for name in ("source", "id", "type")]
    text = " ".join([*named, subject])
    if "tidegatetrigger" in attributes:
        text += f" {text_of(attributes['tidegatetrigger'])}"
    return text if text.isascii() and text.isprintable() else quote(text, safe=_SAFE)


def _subject_of(template: str) -> Callable[[Event], str]:
    name = name_of(template, SUBJECTS)
    if is_fixed(template):
        return name

    def subject(event: Event) -> str:
        found = name(event)
        if ".." in found or found[-1] == ".":  # the value of an attribute was empty
            raise Refused(f"{found[:60]!r} is not a valid subject")
        return found

    return subject
