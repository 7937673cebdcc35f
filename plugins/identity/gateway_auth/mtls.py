"""The authenticator `mtls`: senders that prove who they are with a client certificate.

The TLS handshake verifies the certificate with the authorities in `tls.client_ca_file`. This authenticator reads its
names. Sources: RFC 9525 section 6.3 (one label for `*`), RFC 4514 (distinguished names), SPIFFE X509-SVID section 2.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Sequence
from typing import Annotated, Literal

from anyio.abc import TaskGroup
from gateway_access.subjects import is_reserved
from pydantic import AfterValidator, Field, model_validator

from gateway_core.contract.authenticator import Forbidden
from gateway_core.contract.component import BuildContext, Config
from gateway_core.contract.event import Message
from gateway_core.contract.identity import Identity
from gateway_core.contract.one_line import one_line
from gateway_core.contract.peer import Peer

from .certificate_names import Names, names_of

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?:[^*]*[^*/]|//[^*/]+(?:/[^*]*)?/\*)")


def _exact(text: str) -> str:
    if "*" in text or not text.isprintable():
        raise ValueError("write the whole name: `*` stands for nothing here")
    return text


def _dns(text: str) -> str:
    if "*" in text.removeprefix("*.") or text.endswith(".") or not text.isascii():
        raise ValueError("write a DNS name, or `*.` before one; names that are not ASCII in their xn-- form")
    return text.lower()


def _uri(text: str) -> str:
    if not _URI.fullmatch(text):
        raise ValueError("write a URI such as spiffe://example.org/orders; `/*` at its end stands for all below it")
    return text


_MOST_KNOWN = 1024
"""Certificates whose sender is kept, since each request asks."""
_MOST_SHOWN = 200

Text = Annotated[str, Field(min_length=1, max_length=2048)]


class MtlsConfig(Config):
    """Senders with a client certificate. The source needs `tls` with `client_ca_file`. A certificate has to have one of
    these names; without any, every certificate of the authorities is accepted, and `allow` can tell them apart."""

    common_names: list[Annotated[Text, AfterValidator(_exact)]] = []
    """Common names (CN) of subjects."""
    subjects: list[Annotated[Text, AfterValidator(_exact)]] = []
    """Whole subjects, as `openssl x509 -noout -subject -nameopt RFC2253,-esc_msb` prints them: `CN=orders,O=Shop`."""
    dns: list[Annotated[Text, AfterValidator(_dns)]] = []
    """DNS names in the subject alternative name. `*.` at the start stands for one label."""
    uris: list[Annotated[Text, AfterValidator(_uri)]] = []
    """URIs there, such as SPIFFE ids. `/*` at the end stands for all that is below."""
    identity: Literal["subject", "common_name", "dns", "uri"] = "subject"
    """What becomes the sender's identity: `CN=orders,O=Shop`, `CN=orders`, `dns orders.example` or
    `uri spiffe://example.org/orders`. Of several DNS names or URIs it is the first that is listed above."""

    @model_validator(mode="after")
    def _names_somebody(self) -> MtlsConfig:
        names = ("common_names", "subjects", "dns", "uris")
        if self.open and (empty := [name for name in names if name in self.model_fields_set]):
            raise ValueError(f"`{empty[0]}` is empty: name somebody, or leave it out to accept every certificate")
        return self

    @property
    def open(self) -> bool:
        """Whether every certificate is accepted."""
        return not (self.common_names or self.subjects or self.dns or self.uris)


class MtlsAuthenticator:
    """Knows a sender by its certificate. A certificate without a listed name is answered 403, not 401: who sends is
    proven, and no other credentials can be asked for on this connection."""

    challenge = ""

    def __init__(self, options: MtlsConfig, context: BuildContext) -> None:
        self._options = options
        self._open = options.open
        self._known: dict[object, Identity] = {}

    async def start(self, tasks: TaskGroup) -> None:
        """Nothing to do."""

    async def stop(self) -> None:
        """Nothing to do."""

    def authenticate(self, request: Message) -> Identity | None:
        """See `gateway_core.contract.authenticator.Authenticator`."""
        peer = request.peer
        if not isinstance(peer, Peer):
            return None
        try:
            certificate = peer.certificate()
        except (ValueError, ssl.SSLError):  # names that are not text
            raise Forbidden("the names in the certificate can't be read") from None
        if certificate is None:
            return None
        key = certificate.get("subject"), certificate.get("subjectAltName"), certificate.get("issuer")
        found = self._known.get(key)
        if found is None:
            found = self._identity(names_of(certificate))
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = found
        return found

    def _identity(self, names: Names) -> Identity:
        if not self._open and not self._listed(names):
            # its owner is proven, and the audit log should tell
            of = f" of {one_line(names.subject, _MOST_SHOWN)}" if names.subject else ""
            raise Forbidden(f"the certificate{of} has none of the names that may send here")
        return Identity(self._subject(names), "mtls", "service_account", _claims(names))

    def _listed(self, names: Names) -> bool:
        options = self._options
        return bool(
            names.subject in options.subjects
            or (len(names.common_names) == 1 and names.common_names[0] in options.common_names)
            or _first(names.dns, options.dns, _dns_fits)
            or _first(names.uris, options.uris, _uri_fits)
        )

    def _subject(self, names: Names) -> str:
        options = self._options
        if options.identity == "subject":
            found = names.subject
        elif options.identity == "common_name":
            found = f"CN={names.common_names[0]}" if len(names.common_names) == 1 else ""
        elif options.identity == "dns":
            name = _first(names.dns, options.dns, _dns_fits) or next(iter(names.dns), "")
            found = f"dns {name}" if name else ""
        else:
            if len(names.uris) > 1 and any(uri.startswith("spiffe:") for uri in names.uris):
                raise Forbidden("the certificate has several URIs", rule="SPIFFE X509-SVID section 2")
            name = _first(names.uris, options.uris, _uri_fits) or next(iter(names.uris), "")
            found = f"uri {name}" if name else ""
        if not is_reserved(found):  # else a sender whom another authenticator knows could have the same name
            raise Forbidden(f"the certificate has no {options.identity.replace('_', ' ')} that can name its sender")
        return found


def _claims(names: Names) -> dict[str, object]:
    return {
        "subject": names.subject,
        "issuer": names.issuer,
        "common_name": names.common_names[0] if len(names.common_names) == 1 else "",
        "dns": list(names.dns),
        "uri": list(names.uris),
    }


def _first(names: Sequence[str], listed: Sequence[str], fits: Callable[[str, str], bool]) -> str:
    return next((name for name in names if any(fits(name, text) for text in listed)), "")


def _dns_fits(name: str, text: str) -> bool:
    if text.startswith("*."):
        label, _, rest = name.partition(".")
        return bool(label) and rest == text[2:]
    return name == text


def _uri_fits(name: str, text: str) -> bool:
    return name.startswith(text[:-1]) if text.endswith("/*") else name == text
