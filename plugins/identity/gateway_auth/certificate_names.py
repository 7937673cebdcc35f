"""The names in a certificate, as `ssl.SSLSocket.getpeercert` returns it.

Names that could be taken for others are left out: those with control characters (a NUL ends a name for some programs),
and those with `*`, which stand for many.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_SHORT = {
    "commonName": "CN",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "stateOrProvinceName": "ST",
    "localityName": "L",
    "streetAddress": "street",
    "domainComponent": "DC",
    "userId": "UID",
}


_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9-]*|\d+(?:\.\d+)+")
"""A type of attribute (RFC 4514 section 3). OpenSSL names some with spaces, which could look like other names."""


@dataclass(frozen=True, slots=True)
class Names:
    """`subject` and `issuer` as RFC 4514 writes them ("CN=orders,O=Shop", the most specific part first), the common
    names, and the alternative names of the types DNS (in lower case) and URI."""

    subject: str
    issuer: str
    common_names: tuple[str, ...]
    dns: tuple[str, ...]
    uris: tuple[str, ...]


def names_of(certificate: Mapping[str, Any]) -> Names:
    """The names of a certificate that was verified."""
    alternative = [(kind, value) for kind, value in certificate.get("subjectAltName", ()) if isinstance(value, str)]
    subject = certificate.get("subject", ())
    return Names(
        _distinguished(subject),
        _distinguished(certificate.get("issuer", ())),
        tuple(_clear(value for rdn in subject for name, value in rdn if name == "commonName")),
        tuple(_clear(value.lower() for kind, value in alternative if kind == "DNS")),
        tuple(_clear(value for kind, value in alternative if kind == "URI")),
    )


def _clear(names: Iterable[str]) -> Iterator[str]:
    return (name for name in names if name and name.isprintable() and "*" not in name)


def _distinguished(rdns: Iterable[Iterable[tuple[str, str]]]) -> str:
    """RFC 4514 section 2; "" if a part has characters that can't be shown, or a type that can't be written."""
    rdns = [list(rdn) for rdn in rdns]
    if not all(_TYPE.fullmatch(name) for rdn in rdns for name, _ in rdn):
        return ""
    parts = ["+".join(f"{_SHORT.get(name, name)}={_escaped(value)}" for name, value in rdn) for rdn in rdns]
    text = ",".join(reversed(parts))
    return text if text.isprintable() else ""


def _escaped(value: str) -> str:
    text = "".join(f"\\{c}" if c in ',+"\\<>;' else c for c in value)
    if text[:1] in ("#", " "):
        text = f"\\{text}"
    return f"{text[:-1]}\\ " if text.endswith(" ") and len(value) > 1 else text
