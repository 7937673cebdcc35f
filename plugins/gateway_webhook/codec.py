"""Webhooks to events."""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime
from typing import Any

from gateway_cloudevents.values import forbidden_character
from gateway_cloudevents.versions import V1_0

from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Codec

from .config import WebhookConfig
from .template import Absent, Request, fill, parse

_TITLE = "Not a webhook of this kind"
_SECONDS = re.compile("[0-9]{1,11}")


def build(config: WebhookConfig, context: BuildContext) -> Codec:
    """The codec. It only reads."""
    return _Webhook(config)


class _Webhook:
    def __init__(self, config: WebhookConfig) -> None:
        required = {"id": config.id, "source": config.source, "type": config.type}
        optional = {"subject": config.subject, "time": config.time, **config.extensions}
        self._required = [(name, parse(text)) for name, text in required.items() if text]
        self._optional = [(name, parse(text)) for name, text in optional.items() if text]

    def decode(self, message: Message) -> list[Event]:
        request = Request(message)
        attributes: dict[str, Any] = {"specversion": "1.0"}
        for name, template in self._required:
            try:
                attributes[name] = fill(template, request)
            except Absent as e:
                text = f"{e} is missing, from which the event gets its {name}"
                raise Refused(text, title=_TITLE, attribute=name) from None
        if "id" not in attributes:
            attributes["id"] = str(uuid.uuid4())
        if kind := message.header(b"content-type"):
            attributes["datacontenttype"] = kind.decode("latin-1")
        for name, template in self._optional:
            try:
                attributes[name] = fill(template, request)
            except Absent:
                continue
        if _SECONDS.fullmatch(attributes.get("time", "")):
            attributes["time"] = _of_seconds(int(attributes["time"]))
        for name, value in attributes.items():
            if found := forbidden_character(value):
                raise Refused(f"{name} contains the character {found}", title=_TITLE, attribute=name)
        V1_0.check(attributes)
        return [Event(attributes, message.body or None)]

    def encode(self, event: Event) -> Message:
        raise Refused("the codec webhook only reads: send events with the codec cloudevents", status=501)


def _of_seconds(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
