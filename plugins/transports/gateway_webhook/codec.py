"""Webhooks to events."""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime
from typing import Any

from gateway_cloudevents.left_out import leave_out
from gateway_cloudevents.values import check_media_type, forbidden_character
from gateway_cloudevents.versions import V1_0

from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Codec

from .config import WebhookConfig
from .template import Absent, Request, fill, parse

_TITLE = "Not a webhook of this kind"
_REQUIRED = ("id", "source", "type")
_SECONDS = re.compile("[0-9]{1,11}")


def build(config: WebhookConfig, context: BuildContext) -> Codec:
    """The codec. It only reads."""
    return _Webhook(config)


class _Webhook:
    def __init__(self, config: WebhookConfig) -> None:
        required = {"id": config.id, "source": config.source, "type": config.type}
        optional = {"subject": config.subject, "time": config.time, **config.extensions}
        self._required = [(name, parse(text, uri=name == "source")) for name, text in required.items() if text]
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
            self._put(attributes, "datacontenttype", kind.decode("latin-1"))
        for name, template in self._optional:
            try:
                self._put(attributes, name, fill(template, request))
            except Absent:
                continue
            except Refused as e:
                leave_out(Refused(e.detail, title=_TITLE, attribute=name))
        if _SECONDS.fullmatch(attributes.get("time", "")):
            attributes["time"] = _of_seconds(int(attributes["time"]))
        for name in attributes:
            if name in _REQUIRED and (found := forbidden_character(attributes[name])):
                raise Refused(f"{name} contains the character {found}", title=_TITLE, attribute=name)
        V1_0.settle(attributes)
        return [Event(attributes, message.body or None)]

    def _put(self, attributes: dict[str, Any], name: str, value: str) -> None:
        """Sets an optional attribute, unless no attribute may have its value."""
        fault = ""
        if character := forbidden_character(value):
            fault = f"{name} contains the character {character}"
        elif name == "datacontenttype" and (why := check_media_type(value)):
            fault = f"the content type {value[:100]!r} {why}"
        if fault:
            leave_out(Refused(fault, title=_TITLE, attribute=name))
        else:
            attributes[name] = value

    def encode(self, event: Event) -> Message:
        raise Refused("the codec webhook only reads: send events with the codec cloudevents", status=501)


def _of_seconds(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
