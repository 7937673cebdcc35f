"""What the values of CloudEvents look like, as Java regular expressions: the rules by which the gateway takes events.

Quantifiers are possessive: Java's others recurse, and a long value would end in a stack overflow.
"""

from __future__ import annotations

_DAY = (
    r"(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    r"|02-(?:0[1-9]|1[0-9]|2[0-8]))"
)
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_FRACTION = r"(?:\.[0-9]++)?+"
_ZONE = r"[+-](?:[01][0-9]|2[0-3]):[0-5][0-9]"
_PLAIN_TIME = rf"[0-9]{{4}}-{_DAY}T{_CLOCK}:[0-5][0-9]{_FRACTION}(?:Z|{_ZONE})"
_LEAP_YEAR = r"(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
TIME = (
    rf"^(?:[0-9]{{4}}-{_DAY}|{_LEAP_YEAR}-02-29)"
    rf"[Tt]{_CLOCK}:(?:[0-5][0-9]|60){_FRACTION}(?:[Zz]|{_ZONE})\z"
)
"""RFC 3339 section 5.6, `date-time`; 60 seconds are a leap second."""

_URI = r"(?:[a-zA-Z0-9\-._~!$&'()*+,;=:@/?\[\]]|%[0-9A-Fa-f]{2}|[^\x00-\x7f])*+"
URI_REFERENCE = rf"^{_URI}(?:#{_URI})?+\z"
URI = rf"^[A-Za-z][A-Za-z0-9+.\-]*+:(?=.){_URI}(?:#{_URI})?+\z"

_TOKEN = r"[A-Za-z0-9!#$%&'*+.^_`|~-]++"
_QUOTED = r'"(?:[^"\\\x00-\x1f\x7f]|\\[^\x00-\x1f\x7f])*+"'
MEDIA_TYPE = rf"^{_TOKEN}/{_TOKEN}[ \t]*+(?:;[ \t]*+(?:{_TOKEN}=(?:{_TOKEN}|{_QUOTED})[ \t]*+)?+)*+\z"
CHARSET = rf"(?i);[ \t]*+charset=({_TOKEN}|{_QUOTED})"

TEXT_TYPE = (
    r"(?i)^(?:text/[^;]*+|[^/]*+/(?:xml|javascript|ecmascript|x-www-form-urlencoded|yaml|toml|graphql|sql"
    r"|[^;]*\+(?:xml|yaml)))[ \t]*+(?:;(?!.*charset=)|;.*charset=\"?(?:utf-?8|us-ascii)\b|\z)"
)
"""Media types whose data is text."""

_NONCHARACTERS = "".join(rf"\x{{{plane << 16 | low:X}}}" for plane in range(17) for low in (0xFFFE, 0xFFFF))
FORBIDDEN = rf"[\x00-\x1f\x7f-\x9f\x{{D800}}-\x{{DFFF}}\x{{FDD0}}-\x{{FDEF}}{_NONCHARACTERS}]"
"""What no attribute may have (CloudEvents 1.0.2 spec.md, "Type System", String)."""

TRACE_ID = r"^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}"

# -- the events that nearly all are: of 1.0 in binary mode, ASCII, nothing odd in them --------------------------------

_PLAIN_URI = r"[a-zA-Z&-;?\[!$=\]_~@]++"
_PLAIN_TOKEN = r"[a-zA-Z0-9!#$&'*+.^_|~-]++"
_PLAIN_MEDIA = rf"(?!(?i:application/cloudevents)){_PLAIN_TOKEN}/{_PLAIN_TOKEN}(?:; ?charset=[A-Za-z0-9-]++)?+"
PLAIN = (
    "^"
    + "\n".join(
        (
            r"1\.0",  # specversion
            r"[ -~]++",  # id
            _PLAIN_URI,  # source
            r"[ -~]++",  # type
            r"[ -~]++",  # subject
            f"(?:-|{_PLAIN_TIME})",
            f"(?:-|{_PLAIN_MEDIA})",
            rf"(?:-|[A-Za-z][A-Za-z0-9+.\-]*+:{_PLAIN_URI})",  # dataschema
        )
    )
    + r"\z"
)
"""The values of such an event's attributes, one on a line, `-` for one that is not there. What does not match is looked
at one by one."""

PLAIN_EXTENSIONS = r"^(?:ce_(?!data(?:\n|\z)|datacontenttype)[a-z0-9]++(?:\n|\z))++\z"
PLAIN_VALUES = r"^[ -~]*+\z"

# -- JSON -------------------------------------------------------------------------------------------------------------

_S = r"[ \t\r\n]*+"
_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_TEXT = r'"(?:specversion|id|source|type|subject|time|datacontenttype|dataschema|schemaurl|contenttype)"'
_VALUE = rf"(?:{_STRING}|true|false|null|-?(?:0|[1-9][0-9]{{0,9}}))"
_MEMBER = rf'(?:{_TEXT}{_S}:{_S}(?:{_STRING}|null)|(?!{_TEXT}|"data"){_STRING}{_S}:{_S}{_VALUE}){_S}'
_DATA = rf"(?:{_STRING}|[\[{{].*[\]}}]|[^\[{{\"\s,}}\]]++)"
STRUCTURED = (
    rf"(?s)^{_S}\{{{_S}(?:{_MEMBER}(?:,{_S}(?!\}})|(?=\}})))*+"
    rf'(?:"data"{_S}:{_S}({_DATA}){_S}(?:,{_S}{_MEMBER})*+)?\}}{_S}\z'
)
"""A JSON object whose members are scalars, but for `data`, whose text is the group. It ends at the last bracket outside
a string: those of `data` are the only ones. Whether it is well-formed JSON is not asked here."""
