"""What a scenario is written as: the section `tests:` of a config, or a file `*.scenario.yaml` beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from ..component import Config

Seconds = Annotated[float, Field(ge=0, le=31_536_000, allow_inf_nan=False)]
Status = Annotated[int, Field(ge=200, le=599)]
Unsigned = Annotated[int, Field(ge=0)]
_WORDS: dict[str, dict[str, Any]] = {"ok": {}, "timeout": {"timeout": True}, "refused": {"error": "connection refused"}}


class AnswerConfig(Config):
    """One answer of a subscriber. Short forms: a status alone (`503`), `ok`, `timeout`, `refused` (no connection)."""

    status: Status | None = None
    """The status of the answer. By default 202 where the sink's far side answers with a status, 200 with an event."""
    headers: dict[str, str | int] = {}
    """Headers of the answer, such as `retry-after: 5`."""
    body: Any = None
    """Body of the answer: text as it is, anything else as JSON."""
    event: dict[str, Any] | None = None
    """An event as the answer (a reply): attributes and `data`, as in `events`."""
    timeout: bool = False
    """No answer at all: the attempt ends at its `timeout_s`."""
    error: str | None = None
    """No answer: the attempt fails with this reason, and is tried again."""
    final: bool = False
    """With `error`: it is not tried again."""
    after_s: Seconds = 0.0
    """How long the answer takes, in seconds."""
    times: Annotated[int, Field(ge=1, le=100_000)] = 1
    """How many attempts in a row get it."""
    for_id: str | None = None
    """Only attempts with the event of this id get it."""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        if isinstance(value, int) and not isinstance(value, bool):
            return {"status": value}
        if isinstance(value, str):
            if value not in _WORDS:
                raise ValueError(f"write a status, {', '.join(_WORDS)}, or a mapping")
            return _WORDS[value]
        return value


def _listed(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


class _Short:
    """Tells the editor schema of short forms, which validators take apart."""

    def __init__(self, *forms: dict[str, Any]) -> None:
        self._forms = forms

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [handler(schema), *self._forms]}


_STATUS: dict[str, Any] = {"type": "integer", "minimum": 200, "maximum": 599}
_WORD: dict[str, Any] = {"enum": list(_WORDS)}
Answer = Annotated[AnswerConfig, _Short(_STATUS, _WORD)]
Answers = Annotated[list[Answer], BeforeValidator(_listed), _Short(_STATUS, _WORD, {"type": "object"})]


class MessageConfig(Config):
    """A message as it is on the wire: it is read by the codec of the ingress."""

    headers: dict[str, str] = {}
    """Its headers."""
    body: Any = None
    """Its body: text as it is, anything else as JSON."""
    key: str | None = None
    """Its record key (Kafka)."""


class SendConfig(Config):
    """One event that is sent, or several of a kind: `event`, `message` or `file`."""

    event: dict[str, Any] | None = None
    """Attributes, and `data` (text, or anything else as JSON) or `data_base64`. `specversion`, `id` (1, 2, …), `source`
    and `type` are filled in where they are not there; null leaves one out. It is sent in structured mode. `{n}` in
    texts is the number of the event, from 1, where there is a `count`."""
    message: MessageConfig | None = None
    """A message as it is on the wire, instead of `event`."""
    file: Path | None = None
    """Events in a file, instead of `event`: JSON, one a line, an array, or one alone. Relative to the scenario."""
    to: str = ""
    """The broker or bridge that it is sent to; by default `default`, or the only one there is."""
    key: str | None = None
    """The record key that it comes with (Kafka)."""
    at_s: Seconds | None = None
    """When, in seconds from the beginning; by default together with the one before."""
    count: Annotated[int, Field(ge=1, le=100_000)] = 1
    """How many of it."""

    @model_validator(mode="after")
    def _one_form(self) -> SendConfig:
        if sum(form is not None for form in (self.event, self.message, self.file)) != 1:
            raise ValueError("write one of `event`, `message` and `file`")
        return self


class RefusedConfig(Config):
    """An input that the ingress refuses; what is not named may be anything."""

    status: int | None = None
    """The problem's status."""
    detail: str | None = None
    """Text that its detail holds."""
    attribute: str | None = None
    """The attribute at fault."""


class EventConfig(Config):
    """What an event must have; what is not named may be anything."""

    id: str | None = None
    """Its id."""
    attributes: dict[str, str | int | bool | None] = {}
    """Attributes and their values; null where an attribute must not be there."""
    data: Any = None
    """Its data: text byte for byte, anything else is compared as JSON."""


class LetterConfig(EventConfig):
    """A dead letter; an id alone stands for `id`. The facts (`knativeerrorcode`, `tidegateattempts`, …) are
    attributes."""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"id": value} if isinstance(value, str) else value


Letter = Annotated[LetterConfig, _Short({"type": "string"})]


class ReplyConfig(EventConfig):
    """A reply that a subscriber's answer held, as the broker took it."""

    to: list[str] | None = None
    """The triggers that wanted it, in any order."""


class SentConfig(EventConfig):
    """What one attempt sent, as the sink's codec wrote it."""

    attempt: Annotated[int, Field(ge=1)] | None = None
    """Which attempt for this event, from 1; any where absent."""
    method: str | None = None
    """The method of the request."""
    url: str | None = None
    """Where it went; secrets in it are `****`."""
    topic: str | None = None
    """The topic of the record."""
    key: str | None = None
    """The record key."""
    headers: dict[str, str | int | None] = {}
    """Headers, their names as they are or in lower case; null where a header must not be there. Secrets are `****`."""
    body: Any = None
    """The body, or the record's value: text byte for byte, anything else is compared as JSON."""


class DeliveryExpectConfig(Config):
    """What became of the events of a trigger or bridge. Lists of ids are whole: all of them, in any order."""

    delivered: list[str] | Unsigned | None = None
    """The ids of events that the subscriber has, or how many they are."""
    order: list[str] | None = None
    """The same ids in the order in which they were delivered."""
    dead_lettered: list[Letter] | Unsigned | None = None
    """The events in the dead letter, or how many they are."""
    not_matched: list[str] | Unsigned | None = None
    """The events that the filter did not let through."""
    waiting: list[str] | Unsigned | None = None
    """The events that are neither delivered nor in the dead letter at the end."""
    returned: list[str] | Unsigned | None = None
    """Of a bridge: the events that were given back to the sender (not delivered, and no dead letter)."""
    attempts: Unsigned | None = None
    """How many attempts there were in all."""
    waits_s: list[float | tuple[float, float]] | None = None
    """The waits before the retries, in order: a number of seconds (to a millisecond), or a range `[from, to]`."""
    sent: list[SentConfig] = []
    """What was sent: each entry must fit an attempt."""
    replies: list[ReplyConfig] | None = None
    """All replies of the subscriber that were published, in order."""
    paused: bool | None = None
    """Whether the trigger is paused at the end, because its dead letter fails."""


class ExpectConfig(Config):
    """What is expected; what is not named may be anything."""

    accepted: Unsigned | None = None
    """How many events the ingresses took."""
    refused: list[RefusedConfig] | Unsigned | None = None
    """What the ingresses refused, in order, or how many."""
    unrouted: list[str] | Unsigned | None = None
    """The events that no trigger wanted."""
    triggers: dict[str, DeliveryExpectConfig] = {}
    """By trigger: what became of its events."""
    bridges: dict[str, DeliveryExpectConfig] = {}
    """By bridge: what became of its events."""


class ScenarioConfig(Config):
    """A scenario: given these events and these answers, this is expected."""

    events: Annotated[list[SendConfig], Field(min_length=1)]
    """What is sent, in order."""
    answers: dict[str, Answers] = {}
    """What subscribers answer, by trigger or bridge, one entry an attempt; after the last one, and without any, 202."""
    dead_letters: dict[str, Answers] = {}
    """What dead letters answer, by the trigger, bridge or broker that they belong to; without any they take all."""
    jitter: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Where in its range each wait before a retry is: 0 the shortest, 1 the longest."""
    run_for_s: Seconds | None = None
    """How much time passes; by default as much as it takes until nothing is left to do, a day at most."""
    expect: ExpectConfig
    """What is expected."""


class ScenarioFileConfig(Config):
    """A file `*.scenario.yaml`."""

    config: list[Path] | Path | None = None
    """The config that it tests, relative to this file. By default the file of the same name without `.scenario`, else
    the directory that it is in."""
    env: dict[str, str] = {}
    """Environment variables for that config, secrets for one."""
    tests: dict[str, ScenarioConfig]
    """Scenarios by name."""
