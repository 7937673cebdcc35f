"""Hard JSON: texts at the edges of RFC 8259, each with the verdict that the RFC gives. Cases of our own, in the spirit
of the public suites for JSON parsers.

`JSON` has texts that are a JSON value in UTF-8, `NO_JSON` texts that are none, by name.
"""

from __future__ import annotations

import json
from typing import Any

_PAIR = b"\\ud83d\\ude00"

SURROGATES: dict[str, bytes] = {
    "high half": b'"\\ud83d"',
    "low half": b'"\\ude00"',
    "halves in the wrong order": b'"\\ude00\\ud83d"',
    "high half, then a letter": b'"\\ud83dA"',
    "high half, then another escape": b'"\\ud83d\\u0041"',
    "two high halves, one low": b'"\\ud83d\\ud83d\\ude00"',
    "halves in capitals": b'"\\uD800 \\uDFFF \\uDbFf"',
    "a pair and a half": b'"%b\\udc00"' % _PAIR,
    "an escaped backslash before the letters of a half": b'"\\\\ud83d"',
    "an escaped backslash before a half": b'"\\\\\\ud83d"',
    "half as a name": b'{"\\ud83d":1}',
    "half deep inside": b'[{"a":[{"b":"\\udead"}]}]',
    "half beside what could stand in for it": b'["\\ud8ab","\\ue8ab\\u08ab\\u18ab\\u28ab\\u38ab"]',
    "half beside every other escape": b'"\\ud8ab %b"' % b"".join(b"\\u%c8ab" % c for c in b"0123456789abcefABCEF"),
    "a pair": b'"%b"' % _PAIR,
    "a noncharacter": b'"\\uffff"',
}
DEPTHS: dict[str, bytes] = {
    **{f"{n} arrays": b"[" * n + b"]" * n for n in (2, 100, 500, 900, 1000, 1100, 5000)},
    **{f"{n} objects": b'{"a":' * n + b"1" + b"}" * n for n in (100, 900, 1100, 5000)},
    "half a pair in 1,100 arrays": b"[" * 1100 + b'"\\ud83d"' + b"]" * 1100,
    "deep, then wide": b"[" + b"[" * 1100 + b"]" * 1100 + b",{}" * 100 + b"]",
    "brackets in a string": b'"%b"' % (b"[{" * 2000),
}
NUMBERS: dict[str, bytes] = {
    text.decode(): text
    for text in (
        *(b"0", b"-0", b"-0.0", b"0e0", b"1E+2", b"1e-2", b"1.10", b"100000000.0", b"1E400", b"-1e400", b"1e-400"),
        *(b"9007199254740993", b"18446744073709551616", b"0.1000000000000000055511151231257827", b"[1.0,1]"),
    )
} | {"four hundred digits": b"1" * 400, "four hundred decimals": b"0." + b"3" * 400}
STRINGS: dict[str, bytes] = {
    "every escape": b'"\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000"',
    "an escaped letter": b'"\\u0041"',
    "a raw delete character": b'"\x7f"',
    "characters of every length": '"é€\U0001f600"'.encode(),
    "line separators": '"\u2028\u2029"'.encode(),
    "a byte-order mark inside": b'"\xef\xbb\xbf"',
    "noncharacters, raw": '"\uffff\ufdd0"'.encode(),
    "empty": b'""',
    "looks like JSON": b'"{\\"a\\":1}"',
}
STRUCTURES: dict[str, bytes] = {
    "null": b"null",
    "true": b"true",
    "false": b"false",
    "empty object": b"{}",
    "empty array": b"[]",
    "duplicate names": b'{"a":1,"a":2}',
    "duplicate names, escaped": b'{"a":1,"\\u0061":2}',
    "empty name": b'{"":0}',
    "name of an attribute": b'{"id":"B","specversion":"9","data":1,"data_base64":"AA=="}',
    "space everywhere": b'{ "a"\t:\n[ 1 ,\r\n2 ] }',
}
JSON: dict[str, bytes] = {**SURROGATES, **DEPTHS, **NUMBERS, **STRINGS, **STRUCTURES}
"""Values in JSON, without white space around them."""

NO_JSON: dict[str, bytes] = {
    "nothing": b"",
    "white space alone": b" \n",
    "two values": b"1 2",
    "NaN": b"NaN",
    "Infinity": b"[-Infinity]",
    "plus": b"+1",
    "leading zero": b"01",
    "no digit before the point": b".5",
    "no digit behind the point": b"1.",
    "no digit in the exponent": b"1e",
    "minus alone": b"-",
    "hexadecimal": b"0x1",
    "underscore": b"1_0",
    "word in capitals": b"True",
    "cut word": b"nul",
    "single quotes": b"'a'",
    "no quotes": b"{a:1}",
    "comma at the end": b"[1,]",
    "comma at the end of an object": b'{"a":1,}',
    "two commas": b"[1,,2]",
    "comma first": b"[,1]",
    "no colon": b'{"a" 1}',
    "no value": b'{"a":}',
    "number as a name": b'{1:"a"}',
    "comment": b"[1 /* x */]",
    "wrong bracket": b"[1}",
    "open array": b"[1",
    "open object": b'{"a":1',
    "open string": b'"a',
    "open string behind half a pair": b'"\\ud83d',
    "comma behind half a pair": b'["\\ud83d",]',
    "unknown escape": b'"\\x41"',
    "cut escape": b'"\\u12"',
    "escape of no digits": b'"\\u12G4"',
    "cut half": b'"\\ud83"',
    "backslash at the end": b'"\\',
    "raw line feed": b'"a\nb"',
    "raw null": b'"a\x00b"',
    "raw tab": b'"\t"',
    "no UTF-8": b'"\xff"',
    "overlong UTF-8": b'"\xc0\x80"',
    "half a pair in UTF-8": b'"\xed\xa0\xbd"',
    "UTF-16": '{"a":1}'.encode("utf-16"),
    "no-break space": b"\xc2\xa01",
    "form feed": b"\x0c1",
    "byte-order mark": b"\xef\xbb\xbf1",
    "1,100 arrays, not closed": b"[" * 1100 + b"]" * 1099,
    "1,100 arrays, closed too often": b"[" * 1100 + b"]" * 1101,
    "1,100 arrays, wrong inside": b"[" * 1100 + b"01" + b"]" * 1100,
    "1,100 arrays with braces": b"[" * 1100 + b"}" * 1100,
}


def is_json(text: bytes) -> bool:
    """What Python's own parser says, made strict. It can't say anything of deep nesting: raises `RecursionError`."""
    try:
        json.loads(text.decode(), parse_constant=_no_constant)
    except ValueError:
        return False
    return True


def _no_constant(word: str) -> Any:
    raise ValueError(word)
