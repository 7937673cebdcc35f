"""Signatures of requests: HMAC (RFC 2104) in the schemes of well-known senders, and Standard Webhooks.

Source: https://github.com/standard-webhooks/standard-webhooks, spec/standard-webhooks.md, "Signature scheme" and
"Webhook headers". A signature covers the body alone.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Sequence

from gateway_signing.signing_keys import SecretsConfig, SigningKeys

from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message, text_of
from gateway_core.contract.interfaces import Outcome

from .config import CredentialsConfig
from .signing_config import HmacSenderConfig, WebhooksSenderConfig, webhook_key

Headers = list[tuple[bytes, bytes]]
Signer = Callable[[Event, bytes], Headers]
"""The header fields that sign a body now. Each attempt is signed again."""
Encode = Callable[[Event], Message]


class Unsigned(Refused):
    """The files with the secrets were removed. Nothing may leave without a signature."""

    @property
    def outcome(self) -> Outcome:
        """Nothing was sent, so it is no attempt."""
        return Outcome(False, retry=True, local=True, reason=self.detail)


def signing(encode: Encode, credentials: CredentialsConfig | None, context: BuildContext) -> Encode:
    """Returns `encode`, or with these credentials a function that also signs the message, or raises `Unsigned`. Raises
    `StartError` if a file with a secret can't be used."""
    signer = signer_of(credentials, context) if credentials is not None else None
    if signer is None:
        return encode
    sign = signer

    def signed(event: Event) -> Message:
        message = encode(event)
        message.headers = [*message.headers, *sign(event, message.body or b"")]
        return message

    return signed


def signature_headers(credentials: CredentialsConfig | None) -> frozenset[bytes]:
    """The names of the header fields that have a signature, in lower case."""
    if credentials is None or credentials.bearer:
        return frozenset()
    if credentials.hmac is not None:
        return frozenset({credentials.hmac.header.encode()})
    assert credentials.standard_webhooks is not None
    return frozenset({f"{credentials.standard_webhooks.header_prefix}signature".encode()})


def signer_of(credentials: CredentialsConfig, context: BuildContext) -> Signer | None:
    """What signs bodies; None if these credentials sign nothing. Raises `StartError` as `signing` does."""
    if credentials.hmac is not None:
        return _hmac(credentials.hmac, context)
    if credentials.standard_webhooks is not None:
        return _webhooks(credentials.standard_webhooks, context)
    return None


def _hmac(options: HmacSenderConfig, context: BuildContext) -> Signer:
    keys = _keys(options, str.encode, context)
    now_ns = context.clock.now_ns
    header, timestamp_header = options.header.encode(), options.timestamp_header.encode()
    prefix, algorithm = options.prefix.encode(), options.algorithm
    field, timestamp_field = options.signature_field.encode(), options.timestamp_field.encode()
    parts = [part.encode() for part in options.parts()]
    written = bytes.hex if options.encoding == "hex" else _base64

    def sign(event: Event, body: bytes) -> Headers:
        timestamp = b"%d" % (now_ns() // 1_000_000_000)
        values = {b"{body}": body, b"{timestamp}": timestamp}
        content = b"".join([values.get(part, part) for part in parts])
        signatures = [prefix + written(hmac.digest(key, content, algorithm)).encode() for key in keys()]
        times = [(timestamp_header, timestamp)] if timestamp_header else []
        if not field:  # the field has one value
            return [*times, (header, signatures[0] if signatures else b"")]
        pairs = [b"%s=%s" % (timestamp_field, timestamp)] if timestamp_field else []
        return [*times, (header, b",".join([*pairs, *(b"%s=%s" % (field, s) for s in signatures)]))]

    return sign


def _webhooks(options: WebhooksSenderConfig, context: BuildContext) -> Signer:
    keys = _keys(options, webhook_key, context)
    now_ns = context.clock.now_ns
    names = [f"{options.header_prefix}{word}".encode() for word in ("id", "timestamp", "signature")]

    def sign(event: Event, body: bytes) -> Headers:
        id_, timestamp = webhook_id(event), b"%d" % (now_ns() // 1_000_000_000)
        content = b"%s.%s.%s" % (id_, timestamp, body)
        signatures = [b"v1," + _base64(hmac.digest(key, content, "sha256")).encode() for key in keys()]
        return list(zip(names, (id_, timestamp, b" ".join(signatures)), strict=True))

    return sign


def _keys(
    options: SecretsConfig, parse: Callable[[str], bytes], context: BuildContext
) -> Callable[[], Sequence[bytes]]:
    """The keys to sign with now; the function raises `Unsigned` if there is none. Offline there is none."""
    keys = SigningKeys(options, parse, context.owner, offline=context.offline)
    if context.offline:
        return keys.current

    def current() -> Sequence[bytes]:
        if found := keys.current():
            return found
        raise Unsigned("there is no secret to sign with: the files of `secret_files` were removed")

    return current


def webhook_id(event: Event) -> bytes:
    """The identifier of an event, the same for every attempt and after a restart: made of `source` and `id`, which
    together name one event. It has no dot, whatever they contain."""
    attributes = event.attributes
    id_ = attributes.get("id", attributes.get("eventID", ""))
    text = f"{text_of(attributes.get('source', ''))}\0{text_of(id_)}"
    return b"msg_" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40].encode()


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()
