"""GitHub webhook deliveries as CloudEvents 1.0, after the CloudEvents GitHub adapter (adapters/github.md)."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from gateway_core.contract.clock import Clock
from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Codec

from .config import GitHubConfig
from .kinds import KINDS, OWNERS, Kind

_RULE = "CloudEvents GitHub adapter"
_KIND = re.compile("[a-z0-9_]{1,100}")
_WORD = re.compile("[A-Za-z0-9_-]{1,100}")
_DELIVERY = re.compile("[!-~]{1,200}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)
_MOST_SECONDS = 253_402_300_800  # the year 10000, which RFC 3339 can't write
_URL = re.compile(r"[!#-;=?-Z\[\]_a-z~]{1,2000}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")

_object = msgspec.json.Decoder(dict[str, Any]).decode


def build(config: GitHubConfig, context: BuildContext) -> Codec:
    """The codec. It only reads: GitHub takes no events."""
    secret = config.secret.get_secret_value().encode() if config.secret else None
    return _GitHub(secret, context.clock)


class _GitHub:
    def __init__(self, secret: bytes | None, clock: Clock) -> None:
        self._secret = secret
        self._clock = clock

    def decode(self, message: Message) -> list[Event]:
        body = message.body or b""
        if self._secret is not None:
            _check_signature(self._secret, message.header(b"x-hub-signature-256"), body)
        name = _header(message, b"x-github-event", _KIND)
        delivery = _header(message, b"x-github-delivery", _DELIVERY)
        body = _json(message, body)
        payload = _payload(body)
        kind = KINDS.get(name, Kind())
        attributes: dict[str, Any] = {
            "specversion": "1.0",
            "id": delivery,
            "source": _source(name, kind, payload),
            "type": _type(name, kind, payload),
            "datacontenttype": "application/json",
        }
        if subject := _text(payload, kind.subject):
            attributes["subject"] = subject
        attributes["time"] = _time(kind, payload) or self._now()
        return [Event(attributes, body)]

    def encode(self, event: Event) -> Message:
        raise Refused("the codec github only reads: no one takes events in the form of GitHub webhooks", status=501)

    def _now(self) -> str:
        now = datetime.fromtimestamp(self._clock.now_ns() // 1_000_000 / 1000, UTC)
        return now.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _check_signature(secret: bytes, signature: bytes | None, body: bytes) -> None:
    expected = b"sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest().encode()
    if signature is None or not hmac.compare_digest(signature, expected):
        what = "is missing" if signature is None else "does not fit the body and the secret"
        raise Refused(f"X-Hub-Signature-256 {what}", status=401, rule="GitHub, validating webhook deliveries")


def _header(message: Message, name: bytes, form: re.Pattern[str]) -> str:
    value = message.header(name)
    text = (value or b"").decode("latin-1")
    if not form.fullmatch(text):
        detail = f"header {name.decode()} is {'missing' if value is None else 'malformed'}: not a GitHub delivery"
        raise Refused(detail, rule=_RULE, attribute="id" if name.endswith(b"delivery") else "type")
    return text


def _json(message: Message, body: bytes) -> bytes:
    """The JSON in a body, which GitHub sends in a form unless the webhook's content type is set to JSON."""
    content_type = (message.header(b"content-type") or b"application/json").partition(b";")[0].strip().lower()
    if content_type == b"application/json":
        return body
    if content_type != b"application/x-www-form-urlencoded":
        raise Refused("set the webhook's content type to application/json", status=415, rule=_RULE)
    try:
        fields = dict(parse_qsl(body.decode(), errors="strict", max_num_fields=10))
    except ValueError as e:
        raise Refused(f"the body is not a form: {e}", rule=_RULE) from e
    if "payload" not in fields:
        raise Refused("the form has no field `payload`", rule=_RULE)
    return fields["payload"].encode()


def _payload(body: bytes) -> dict[str, Any]:
    try:
        return _object(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as e:
        try:  # it takes what the fast one refuses: half surrogate pairs, numbers of any size
            payload = json.loads(body.decode())
        except (ValueError, RecursionError):
            payload = None
        if isinstance(payload, dict):
            return payload
        raise Refused(f"the body is not a JSON object: {e}", rule=_RULE) from e


def _at(payload: dict[str, Any], path: str) -> Any:
    found: Any = payload
    for key in path.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _text(payload: dict[str, Any], path: str) -> str:
    """The value at a path as text; "" where there is none, or none that an attribute can have."""
    found = _at(payload, path) if path else None
    if isinstance(found, int) and not isinstance(found, bool):
        return str(found)
    return found if isinstance(found, str) and not _CONTROL.search(found) else ""


def _type(name: str, kind: Kind, payload: dict[str, Any]) -> str:
    words = (_text(payload, path) for path in kind.parts)
    return ".".join(["com.github", name, *(word for word in words if _WORD.fullmatch(word))])


def _source(name: str, kind: Kind, payload: dict[str, Any]) -> str:
    parts = [_text(payload, path) for path in kind.source]
    if name == "marketplace_purchase":
        parts[0] = parts[0].rpartition("/")[0]
    if not kind.source:
        return "github.com"
    candidates = ["/".join(parts)] if all(parts) else []
    candidates += [_text(payload, path) for path in OWNERS]
    return next((c for c in candidates if _URL.fullmatch(c)), "github.com")


def _time(kind: Kind, payload: dict[str, Any]) -> str:
    action = _text(payload, "action")
    for path in kind.time:
        path = path.replace("{action}", action)
        if (seconds := _at(payload, path)) and type(seconds) is int and 0 < seconds < _MOST_SECONDS:
            # the time of some kinds (installations, the repository of a push) is in Unix seconds
            return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
        found = _text(payload, path)
        if _TIME.fullmatch(found) and _is_date(found):
            return found
    return ""


def _is_date(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
