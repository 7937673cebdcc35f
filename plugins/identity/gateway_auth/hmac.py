"""The authenticator `hmac`: requests that are signed with a shared secret."""

from __future__ import annotations

import binascii
import hmac
from collections.abc import Sequence

from anyio.abc import TaskGroup
from gateway_signing.signing_keys import SigningKeys

from gateway_core.contract.authenticator import Unauthenticated
from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import Overloaded
from gateway_core.contract.event import Message
from gateway_core.contract.identity import Identity

from .freshness import Freshness
from .hmac_config import HmacConfig

MOST_SIGNATURES = 16
"""Signatures in one request that are looked at; each costs a comparison."""
_LENGTHS = {"sha1": 20, "sha256": 32, "sha512": 64}


class HmacAuthenticator:
    """Knows a sender by its signature. `challenge` is empty: no scheme of HTTP stands for these signatures."""

    challenge = ""

    def __init__(self, options: HmacConfig, context: BuildContext) -> None:
        self._keys = SigningKeys(options, str.encode, context.owner, offline=context.offline)
        self._fresh = Freshness(options.window_s, options.remember, context.clock.now_ns)
        self._header = options.header.encode()
        self._algorithm = options.algorithm
        self._length = _LENGTHS[options.algorithm]
        self._decode = binascii.unhexlify if options.encoding == "hex" else _base64
        self._prefix = options.prefix.encode()
        self._field = options.signature_field.encode()
        self._timestamp_field = options.timestamp_field.encode()
        self._timestamp_header = options.timestamp_header.encode()
        self._timed = options.has_timestamp
        self._parts = [part.encode() for part in options.parts()]
        self._attributes = options.unsigned_attributes
        self._identity = Identity(options.sender, "hmac", "service_account")

    async def start(self, tasks: TaskGroup) -> None:
        """Nothing to do."""

    async def stop(self) -> None:
        """Nothing to do."""

    def authenticate(self, request: Message) -> Identity | None:
        """See `gateway_core.contract.authenticator.Authenticator`."""
        written = only(request, self._header)
        if written is None:
            return None
        if not self._attributes:
            refuse_attributes(request)
        timestamp, signatures = self._read(request, written)
        if self._timed:
            self._fresh.check(timestamp)
        body = request.body or b""
        if self._parts == [b"{body}"]:
            content = body
        else:
            values = {b"{body}": body, b"{timestamp}": timestamp}
            content = b"".join([values.get(part, part) for part in self._parts])
        if not (keys := self._keys.current()):
            raise Overloaded("signatures can't be checked now")
        for key in keys:
            expected = hmac.digest(key, content, self._algorithm)
            for signature in signatures:
                if hmac.compare_digest(signature, expected):
                    if self._timed:
                        self._fresh.take(content, timestamp)
                    return self._identity
        raise Unauthenticated("the signature does not fit the body and the secret")

    def _read(self, request: Message, written: bytes) -> tuple[bytes, Sequence[bytes]]:
        """The timestamp and the signatures of a request."""
        if self._field:
            pairs = [part.strip(b" \t").partition(b"=") for part in written.split(b",", 2 * MOST_SIGNATURES)]
            texts = [value for name, _, value in pairs if name == self._field]
            times = [value for name, _, value in pairs if name == self._timestamp_field]
        else:
            texts, times = [written], []
        if self._timestamp_header:
            times = [found] if (found := only(request, self._timestamp_header)) is not None else []
        if self._timed and len(times) != 1:
            raise Unauthenticated("the request has no timestamp" if not times else "the request has two timestamps")
        signatures = [s for text in texts[:MOST_SIGNATURES] if (s := self._signature(text)) is not None]
        if not signatures:
            raise Unauthenticated("the signature is malformed")
        return times[0] if times else b"", signatures

    def _signature(self, text: bytes) -> bytes | None:
        if not text.startswith(self._prefix):
            return None
        try:
            found = self._decode(text[len(self._prefix) :])
        except ValueError:
            return None
        return found if len(found) == self._length else None


def only(request: Message, name: bytes) -> bytes | None:
    """The value of a header field that may be there once, None if it is absent. Raises `Unauthenticated`: which of two
    was signed, nobody can tell."""
    found = [value for field, value in request.headers if field == name]
    if len(found) > 1:
        raise Unauthenticated(f"the request has the header field {name.decode()} twice")
    return found[0] if found else None


def refuse_attributes(request: Message) -> None:
    """Raises `Unauthenticated` for a CloudEvent whose attributes are header fields: signed is the body alone."""
    if any(name[:3] == b"ce-" for name, _ in request.headers):
        kinds = [value for name, value in request.headers if name == b"content-type"]
        if len(kinds) != 1 or not kinds[0].lstrip().lower().startswith(b"application/cloudevents"):
            raise Unauthenticated("the signature does not cover the `ce-` header fields: send structured mode")


def _base64(text: bytes) -> bytes:
    return binascii.a2b_base64(text, strict_mode=True)
