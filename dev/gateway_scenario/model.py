"""The format of scenarios: the section `tests:` of a config, or a file `*.scenario.yaml` next to it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from gateway_core.contract.component import Config

Seconds = Annotated[float, Field(ge=0, le=31_536_000, allow_inf_nan=False)]
Status = Annotated[int, Field(ge=200, le=599)]
Unsigned = Annotated[int, Field(ge=0)]
_WORDS: dict[str, dict[str, Any]] = {"ok": {}, "timeout": {"timeout": True}, "refused": {"error": "connection refused"}}


class AnswerConfig(Config):
    """One response of a subscriber. Short forms: a status alone (`503`), `ok`, `timeout`, `refused` (no connection)."""

    status: Status | None = None
    """The status of the response. By default 202 if the sink's responses have a status, and 200 with an event."""
    headers: dict[str, str | int] = {}
    """Headers of the response, such as `retry-after: 5`."""
    body: Any = None
    """Body of the response: text as is, anything else as JSON."""
    event: dict[str, Any] | None = None
    """An event as the response (a reply): attributes and `data`, as in `events`."""
    timeout: bool = False
    """No response: the attempt ends at its `timeout_s`."""
    error: str | None = None
    """No response: the attempt fails with this reason, and is retried."""
    final: bool = False
    """With `error`: it is not retried."""
    after_s: Seconds = 0.0
    """How long the response takes, in seconds."""
    times: Annotated[int, Field(ge=1, le=100_000)] = 1
    """How many consecutive attempts get this response."""
    for_id: str | None = None
    """Only attempts with the event of this id get this response."""

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
    """Adds the short forms, which validators expand, to the editor schema."""

    def __init__(self, *forms: dict[str, Any]) -> None:
        self._forms = forms

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [handler(schema), *self._forms]}


_STATUS: dict[str, Any] = {"type": "integer", "minimum": 200, "maximum": 599}
_WORD: dict[str, Any] = {"enum": list(_WORDS)}
Answer = Annotated[AnswerConfig, _Short(_STATUS, _WORD)]
Answers = Annotated[list[Answer], BeforeValidator(_listed), _Short(_STATUS, _WORD, {"type": "object"})]


class MessageConfig(Config):
    """A raw message, which the codec of the ingress decodes."""

    headers: dict[str, str] = {}
    """Its headers."""
    body: Any = None
    """Its body: text as is, anything else as JSON."""
    key: str | None = None
    """Its record key (Kafka)."""


class ReplayStepConfig(Config):
    """Past events that one trigger gets again, as with `tidegate replay`: those that match its filter."""

    trigger: str
    """The trigger that gets them, and no other."""
    from_s: Seconds = 0.0
    """Events accepted since then, in seconds from the start."""
    to_s: Seconds | None = None
    """Events accepted before that. By default all up to now."""
    positions: list[Annotated[int, Field(ge=1)]] | None = None
    """Only the events at these positions: their numbers, from 1, in the order in which their broker stored them."""
    filters: list[str] = []
    """What the events must match, too: `NAME=VALUE`, or a CloudEvents SQL expression."""
    mark: bool = False
    """Whether they get the attribute `tidegatereplay`: `replay-1` for the first replay of the scenario."""


class SendConfig(Config):
    """One event to send, or several of the same kind: `event`, `message` or `file`. Or a `replay` of those before."""

    event: dict[str, Any] | None = None
    """Attributes, and `data` (text, or anything else as JSON) or `data_base64`. `specversion`, `id` (1, 2, …), `source`
    and `type` are filled in if missing; null leaves one out. It is sent in structured mode. With `count`, `{n}` in
    texts is the number of the event, from 1."""
    message: MessageConfig | None = None
    """A raw message, instead of `event`."""
    file: Path | None = None
    """A file of JSON events, instead of `event`: one per line, an array, or a single event. Relative to the scenario's
    file."""
    replay: ReplayStepConfig | None = None
    """Past events to send to one trigger again, instead of an event."""
    to: str = ""
    """The broker or bridge to send it to. By default `default`, or the only one."""
    key: str | None = None
    """Its record key (Kafka)."""
    at_s: Seconds | None = None
    """When to send it, in seconds from the start. By default together with the previous one."""
    count: Annotated[int, Field(ge=1, le=100_000)] = 1
    """How many to send."""

    @model_validator(mode="after")
    def _one_form(self) -> SendConfig:
        if sum(form is not None for form in (self.event, self.message, self.file, self.replay)) != 1:
            raise ValueError("write one of `event`, `message`, `file` and `replay`")
        if self.replay is not None and self.model_fields_set & {"to", "key", "count"}:
            raise ValueError("`to`, `key` and `count` are for events; a `replay` names its `trigger`")
        return self


class RefusedConfig(Config):
    """An input that the ingress refuses. Omitted keys match anything."""

    status: int | None = None
    """The status of the problem."""
    detail: str | None = None
    """Text that its detail contains."""
    attribute: str | None = None
    """The attribute at fault."""


class EventConfig(Config):
    """What an event must have. Omitted keys match anything."""

    id: str | None = None
    """Its id."""
    attributes: dict[str, str | int | bool | None] = {}
    """Attributes and their values; null for an attribute that must be absent."""
    data: Any = None
    """Its data: text is compared byte for byte, anything else as JSON."""


class DeadLetterExpectConfig(EventConfig):
    """A dead letter. A plain id is short for `id`. The facts (`knativeerrorcode`, `tidegateattempts`, …) are
    attributes."""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"id": value} if isinstance(value, str) else value


Letter = Annotated[DeadLetterExpectConfig, _Short({"type": "string"})]


class ReplyConfig(EventConfig):
    """A reply in a subscriber's response, as the broker accepted it."""

    to: list[str] | None = None
    """The triggers that match it, in any order."""


class SentConfig(EventConfig):
    """What one attempt sent, as encoded by the sink's codec."""

    attempt: Annotated[int, Field(ge=1)] | None = None
    """Which attempt for this event, from 1. By default any."""
    method: str | None = None
    """The method of the request."""
    url: str | None = None
    """The URL; secrets in it are `****`."""
    topic: str | None = None
    """The topic of the record."""
    key: str | None = None
    """The record key."""
    headers: dict[str, str | int | None] = {}
    """Headers, with names as written or in lower case; null for a header that must be absent. Secrets are `****`."""
    body: Any = None
    """The body, or the record's value: text is compared byte for byte, anything else as JSON."""


class DeliveryExpectConfig(Config):
    """What happened to the events of a trigger or bridge. Lists of ids are complete, in any order."""

    delivered: list[str] | Unsigned | None = None
    """The ids of delivered events, or their number."""
    replayed: list[str] | Unsigned | None = None
    """The ids of events that replays delivered again, once for each time, or their number. They don't count among the
    `delivered`, `waiting` and `not_matched`, but in all that follows."""
    order: list[str] | None = None
    """The ids of delivered events in the order of delivery."""
    dead_lettered: list[Letter] | Unsigned | None = None
    """The events in the dead letter, or their number."""
    not_matched: list[str] | Unsigned | None = None
    """The events that the filter rejected."""
    waiting: list[str] | Unsigned | None = None
    """The events that at the end are neither delivered nor in the dead letter."""
    returned: list[str] | Unsigned | None = None
    """Of a bridge: the events that were returned to the sender (not delivered, and no dead letter)."""
    attempts: Unsigned | None = None
    """The total number of attempts."""
    waits_s: list[float | tuple[float, float]] | None = None
    """The delays before the retries, in order: a number of seconds (to a millisecond), or a range `[from, to]`."""
    sent: list[SentConfig] = []
    """What was sent: each entry must match an attempt."""
    replies: list[ReplyConfig] | None = None
    """All published replies of the subscriber, in order."""
    blocked: bool | None = None
    """Whether it is blocked at the end, because its dead letter fails."""


class ExpectConfig(Config):
    """What is expected. Omitted keys match anything."""

    accepted: Unsigned | None = None
    """How many events the ingresses accepted."""
    refused: list[RefusedConfig] | Unsigned | None = None
    """What the ingresses refused, in order, or its number."""
    duplicates: list[str] | Unsigned | None = None
    """The events that were not stored again (`deduplicate`), in order, or their number. They count as accepted."""
    unrouted: list[str] | Unsigned | None = None
    """The events that matched no trigger."""
    triggers: dict[str, DeliveryExpectConfig] = {}
    """Expectations by trigger."""
    bridges: dict[str, DeliveryExpectConfig] = {}
    """Expectations by bridge."""


class ScenarioConfig(Config):
    """A scenario: events, responses of subscribers, and the expected result."""

    events: Annotated[list[SendConfig], Field(min_length=1)]
    """What to send, in order."""
    answers: dict[str, Answers] = {}
    """The responses of subscribers, by trigger or bridge, one entry per attempt. After the last one, or without any:
    202."""
    dead_letters: dict[str, Answers] = {}
    """The responses of dead letter sinks, by their trigger, bridge or broker. By default they accept everything."""
    jitter: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Where each retry delay lies in its range: 0 the shortest, 1 the longest."""
    run_for_s: Seconds | None = None
    """How much time passes. By default until nothing is left to do, at most two days."""
    expect: ExpectConfig
    """What is expected."""


class ScenarioFileConfig(Config):
    """A file `*.scenario.yaml`."""

    config: list[Path] | Path | None = None
    """The config to test, relative to this file. By default the file of the same name without `.scenario`, else its
    directory."""
    env: dict[str, str] = {}
    """Environment variables for that config, such as secrets."""
    tests: dict[str, ScenarioConfig]
    """Scenarios by name."""
