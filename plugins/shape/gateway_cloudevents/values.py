"""Checks of attribute values: allowed characters, RFC 3339 times, URIs, media types.

A check returns "" or the fault of a value. All patterns run in time linear in the value's length.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import IPv6Address
from urllib.parse import unquote_to_bytes

Check = Callable[[str], str]

_KNOWN_FORMATS = ("application/cloudevents+json", "application/cloudevents-batch+json")

# CloudEvents 1.0.2 spec.md, "Type System", String: no C0 or C1 controls, noncharacters or surrogates
_NONCHARACTERS = "".join(chr(plane << 16 | low) for plane in range(17) for low in (0xFFFE, 0xFFFF))
_SURROGATES = f"{chr(0xD800)}-{chr(0xDFFF)}"  # no literal: mypyc can't compile one
_FORBIDDEN = re.compile(f"[\x00-\x1f\x7f-\x9f{_SURROGATES}\ufdd0-\ufdef{_NONCHARACTERS}]")

_TIME = re.compile(
    r"([0-9]{4})-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    r"|02-(?:0[1-9]|1[0-9]|2([0-9])))"
    r"[Tt](?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)(?:\.[0-9]+)?"
    r"(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)


# RFC 3986 appendix A, plus what producers write and common parsers accept: non-ASCII characters
# (IRIs), and brackets after the authority (`?tags[]=1`). The value is passed on, not dereferenced.
# Each repetition is possessive, so that there is no backtracking, and of one class of characters: before Python 3.11.5,
# `re` lets a possessive group that fails halfway match all the same. So a class takes a "%", and _NO_ESCAPE finds one
# that begins no escape. The classes name the ASCII characters that are not allowed: a class of all non-ASCII characters
# takes `re` a millisecond to compile.
def _characters(more: str) -> str:
    allowed = "-._~!$&'()*+,;=%" + more
    others = "".join(c for c in map(chr, range(0x80)) if not c.isalnum() and c not in allowed)
    return rf"[^{re.escape(others)}]*+"


_NO_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")

_IP_LITERAL = (
    rf"\[(?:(?P<ipv6>[0-9A-Fa-f:.]++)(?:%25{_characters('')})?|[vV][0-9A-Fa-f]++\.[A-Za-z0-9\-._~!$&'()*+,;=:]++)\]"
)
_AUTHORITY = rf"(?:{_characters(':')}@)?(?:{_IP_LITERAL}|{_characters('')})(?::[0-9]*+)?"
_PATH = _characters(":@/[]")
_FIRST_SEGMENT = _characters("@[]")
_NO_SCHEME = rf"{_FIRST_SEGMENT}(?:/{_PATH})?"  # a colon in the first segment would end a scheme
_BEHIND_PATH = _characters(":@/?[]")
_URI_REFERENCE = re.compile(
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*+):)?"
    rf"(?://{_AUTHORITY}(?:/{_PATH})?|(?!//)(?(scheme){_PATH}|{_NO_SCHEME}))"
    rf"(?:\?{_BEHIND_PATH})?(?:\#{_BEHIND_PATH})?"
)

_TOKEN = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_QUOTED = r'"(?:[^"\\\x00-\x1f\x7f]|\\[^\x00-\x1f\x7f])*"'
_MEDIA_TYPE = re.compile(rf"{_TOKEN}/{_TOKEN}[ \t]*(?:;[ \t]*(?:{_TOKEN}=(?:{_TOKEN}|{_QUOTED})[ \t]*)?)*", re.ASCII)
_PARAMETER = re.compile(rf";[ \t]*({_TOKEN})=({_TOKEN}|{_QUOTED})")


def forbidden_character(text: str) -> str:
    """The first forbidden character, as "U+0007", or ""."""
    if text.isprintable():  # false for every forbidden character, and ten times faster than the pattern
        return ""
    found = _FORBIDDEN.search(text)
    return f"U+{ord(found[0]):04X}" if found else ""


def check_time(text: str) -> str:
    """RFC 3339 section 5.6, `date-time`; 60 seconds are a leap second."""
    found = _TIME.fullmatch(text)
    if found is None:
        return "is not an RFC 3339 date and time such as 2018-04-05T17:31:00Z"
    if found[2] == "9":  # 29 February
        year = int(found[1])
        if year % 4 or (year % 100 == 0 and year % 400):
            return f"names 29 February, which {found[1]} did not have"
    return ""


def check_uri_reference(text: str) -> str:
    """RFC 3986 section 4.1, `URI-reference`."""
    return "" if _uri_reference(text) else "is not a URI-reference (RFC 3986 section 4.1)"


def check_uri(text: str) -> str:
    """RFC 3986 section 3, `URI`: it begins with a scheme, and must not be only a scheme."""
    found = _uri_reference(text)
    return (
        ""
        if found and found["scheme"] and len(text) > len(found["scheme"]) + 1
        else "is not an absolute URI (RFC 3986 section 4.3)"
    )


def _uri_reference(text: str) -> re.Match[str] | None:
    found = _URI_REFERENCE.fullmatch(text)
    if found and "%" in text and _NO_ESCAPE.search(text):
        return None
    if found and found["ipv6"]:
        try:
            IPv6Address(found["ipv6"])
        except ValueError:
            return None
    return found


def check_media_type(text: str) -> str:
    """RFC 2046 `type/subtype`, with parameters."""
    return "" if _MEDIA_TYPE.fullmatch(text) else "is not a media type such as application/json (RFC 2046)"


def essence(media_type: str) -> str:
    """`type/subtype` in lower case, without parameters."""
    return media_type.partition(";")[0].strip(" \t").lower()


def is_unknown_format(content_type: str) -> bool:
    """Whether a media type is that of an event format that is not known here. Who reads that format would take such
    data for an event, whose type and sender nobody has checked."""
    kind = essence(content_type)
    return kind.startswith("application/cloudevents") and kind not in _KNOWN_FORMATS


def charset(media_type: str) -> str:
    """The `charset` parameter in lower case, or ""."""
    for name, value in _PARAMETER.findall(media_type):
        if name.lower() == "charset":
            return str(value).strip('"').lower()
    return ""


_ENCODINGS = re.compile(
    r"iso[-_]8859[-_](?:[1-9]|1[0-1]|1[3-6])|latin[-_]?1|windows-125[0-8]|cp125[0-8]|utf-(?:16|32)(?:le|be)?|koi8-[ru]"
    r"|shift_jis|euc-(?:jp|kr)|gb2312|gbk|gb18030|big5|iso-2022-jp"
)


def encoding(media_type: str) -> str:
    """Python's name of the encoding that text of this type has; "" for UTF-8, for US-ASCII, which UTF-8 includes, and
    for what is unknown."""
    declared = charset(media_type)
    return declared if _ENCODINGS.fullmatch(declared) else ""


def with_utf8(media_type: str) -> str:
    """The media type with UTF-8 as its charset."""
    return _PARAMETER.sub(lambda p: ";charset=utf-8" if p[1].lower() == "charset" else p[0], media_type)


def uri_of_header(text: str) -> str:
    """The URI in a header value that may be percent-encoded (HTTP binding 1.0.2, section 3.1.3.2).

    sdk-go, sdk-java and version 1 of sdk-python write attributes as they are, so the escapes in their URIs are the
    URI's own. Values are taken as they came if only that is a URI (`/my%20file`), or if no encoder of the binding can
    have written them: it escapes a character always or never, and those that escape more than they must leave no
    delimiter but the slash (`https://h/a%2Fb`). Raises `UnicodeDecodeError`.
    """
    decoded = unquote_to_bytes(text).decode()
    if _is_raw(text) or (_uri_reference(decoded) is None and _uri_reference(text)):
        return text
    return decoded


URIS = frozenset({"source", "dataschema", "schemaurl"})
"""The attributes, in lower case, that are URIs in a version."""
_ESCAPED = re.compile("%([0-9A-Fa-f]{2})")
_DELIMITERS = frozenset(":?#[]@!$&'()*+,;=")
_ALWAYS_ESCAPED = frozenset(' "%')


def _is_raw(text: str) -> bool:
    escaped = {c for c in (chr(int(h, 16)) for h in _ESCAPED.findall(text)) if " " <= c <= "~"} - _ALWAYS_ESCAPED
    literal = set(_ESCAPED.sub("", text))
    return bool(escaped) and not (literal.isdisjoint(escaped) and literal.isdisjoint(_DELIMITERS))


def is_json(media_type: str) -> bool:
    """Whether the type declares JSON: `*/json` or `*/*+json` (json-format.md section 3.1.1)."""
    subtype = essence(media_type).partition("/")[2]
    return subtype == "json" or subtype.endswith("+json")


_TEXT_SUBTYPES = frozenset(
    {"xml", "javascript", "ecmascript", "x-www-form-urlencoded", "yaml", "toml", "graphql", "sql"}
)


def is_text(media_type: str) -> bool:
    """Whether data of this type is readable UTF-8 text, and so a string in JSON rather than Base64."""
    kind, _, subtype = essence(media_type).partition("/")
    textual = kind == "text" or subtype in _TEXT_SUBTYPES or subtype.endswith(("+xml", "+yaml"))
    return textual and charset(media_type) in ("", "utf-8", "utf8", "us-ascii")
