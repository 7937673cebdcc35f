"""Types of JSON data: parses and writes Spark DDL, without Spark. A type has Spark's own JSON form: a name ("string",
"decimal(10,2)") or an object ({"type": "struct", "fields": […]})."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

Type = str | dict[str, Any]

NAMES = {
    "BOOLEAN": "boolean",
    "SMALLINT": "short",
    "SHORT": "short",
    "INT": "integer",
    "INTEGER": "integer",
    "BIGINT": "long",
    "LONG": "long",
    "FLOAT": "float",
    "REAL": "float",
    "DOUBLE": "double",
    "STRING": "string",
    "BINARY": "binary",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP_LTZ": "timestamp",
    "TIMESTAMP_NTZ": "timestamp_ntz",
    "VARIANT": "variant",
}
_DECIMALS = ("DECIMAL", "DEC", "NUMERIC")
_DDL = {name: ddl for ddl, name in reversed(NAMES.items())}
_CHOICE = (*_DDL.values(), "DECIMAL(p,s)", "ARRAY<…>", "MAP<STRING, …>", "STRUCT<…>")
_TOKEN = re.compile(r"""\s*(`(?:[^`]|``)*`|\w+|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[<>(),:])""")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def struct(fields: Iterable[tuple[str, Type, bool]]) -> Type:
    """A structure, from the names and types of its fields and whether they may be missing."""
    made = [{"name": n, "type": t, "nullable": null, "metadata": {}} for n, t, null in fields]
    return {"type": "struct", "fields": made}


def array(element: Type) -> Type:
    return {"type": "array", "elementType": element, "containsNull": True}


def mapping(value: Type) -> Type:
    return {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": True}


def kind(of: Type) -> str:
    """The outermost word: "struct", "array", "map", or the name of a plain type."""
    return of if isinstance(of, str) else str(of["type"])


def fields(of: Type) -> list[dict[str, Any]]:
    """The fields of a structure; none for any other type."""
    return list(of["fields"]) if isinstance(of, dict) and of["type"] == "struct" else []


def parse(text: str, observed: bool = False) -> Type:
    """The type in a DDL text: a list of fields (`dest STRING, delay DOUBLE NOT NULL`) or one type (`ARRAY<STRING>`).
    `observed` also accepts the output of Spark's `schema_of_variant_agg`: `OBJECT` for structures, `VOID`, and types
    that no column can have (fields whose names differ only in case, empty structures). Raises `ValueError` with one
    line."""
    return _Parser(text, observed).whole()


def render(of: Type, top: bool = True) -> str:
    """The DDL text of a type, the inverse of `parse`. At the top level, a structure is the list of its fields."""
    match kind(of):
        case "struct":
            text = ", ".join(
                f"{name_of(f['name'])} {render(f['type'], False)}{'' if f['nullable'] else ' NOT NULL'}"
                for f in fields(of)
            )
            return text if top and text else f"STRUCT<{text}>"
        case "array":
            assert isinstance(of, dict)
            return f"ARRAY<{render(of['elementType'], False)}>"
        case "map":
            assert isinstance(of, dict)
            return f"MAP<STRING, {render(of['valueType'], False)}>"
        case plain:
            return _DDL.get(plain) or plain.upper()


def name_of(field: str) -> str:
    """A field's name in DDL, quoted if necessary."""
    return field if _PLAIN.fullmatch(field) else "`" + field.replace("`", "``") + "`"


class _Parser:
    """Recursive descent."""

    def __init__(self, text: str, observed: bool) -> None:
        self._observed = observed
        self._tokens: list[str] = []
        at = 0
        while at < len(text.rstrip()):
            found = _TOKEN.match(text, at)
            if found is None:
                raise ValueError(f"{text[at:].strip()[:20]!r} is not expected here")
            self._tokens.append(found[1])
            at = found.end()
        self._at = 0

    def whole(self) -> Type:
        if not self._tokens:
            raise ValueError("it has no fields")
        # a list of fields begins with a name and a type; a type stands alone, or is followed by < or (
        made = self._type() if len(self._tokens) == 1 or self._tokens[1] in "<(" else self._fields("")
        if self._at < len(self._tokens):
            raise ValueError(f"{self._tokens[self._at]!r} is not expected here")
        return made

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self, wanted: str = "") -> str:
        token = self._peek()
        if not token or (wanted and token != wanted):
            raise ValueError(f"{wanted or 'more'} is missing {f'before {token!r}' if token else 'at the end'}")
        self._at += 1
        return token

    def _fields(self, end: str) -> Type:
        found: list[tuple[str, Type, bool]] = []
        while self._peek() != end:
            found.append(self._field())
            if self._peek() == end:
                break
            self._next(",")
        if not self._observed:
            if not found or not all(name for name, _, _ in found):
                raise ValueError("a structure needs at least one field, and each needs a name")
            if twice := doubled(name for name, _, _ in found):
                raise ValueError(f"the field {twice} occurs twice (case-insensitive)")
        return struct(found)

    def _field(self) -> tuple[str, Type, bool]:
        token = self._next()
        if token[0] in "'\"<>(),:":
            raise ValueError(f"{token!r} is not the name of a field")
        name = token[1:-1].replace("``", "`") if token[0] == "`" else token
        if self._peek() == ":":
            self._next()
        try:
            of = self._type()
        except ValueError as e:
            raise ValueError(str(e) if str(e).startswith("field ") else f"field {name}: {e}") from None
        nullable = self._peek().upper() != "NOT"
        if not nullable:
            self._next()
            if self._next().upper() != "NULL":
                raise ValueError(f"field {name}: NULL is missing after NOT")
        if self._peek().upper() == "COMMENT":
            self._next()
            self._next()
        return name, of, nullable

    def _type(self) -> Type:
        word = self._next().upper()
        if word == "STRUCT" or (word == "OBJECT" and self._observed):
            self._next("<")
            made = self._fields(">")
            self._next(">")
            return made
        if word == "ARRAY":
            self._next("<")
            made = array(self._type())
            self._next(">")
            return made
        if word == "MAP":
            return self._map()
        if word in _DECIMALS:
            return self._decimal()
        if word == "VOID" and self._observed:
            return "void"
        if word not in NAMES:
            raise ValueError(f"JSON data has no type {word}: choose from {', '.join(_CHOICE)}")
        return NAMES[word]

    def _map(self) -> Type:
        self._next("<")
        if self._type() != "string":
            raise ValueError("the keys of a MAP must be STRING in JSON")
        self._next(",")
        value = self._type()
        self._next(">")
        return mapping(value)

    def _decimal(self) -> Type:
        digits = ["10", "0"]
        if self._peek() == "(":
            self._next()
            digits = [self._next(), "0"]
            if self._peek() == ",":
                self._next()
                digits[1] = self._next()
            self._next(")")
        if not all(d.isdecimal() for d in digits) or not int(digits[1]) <= int(digits[0]) <= 38:
            raise ValueError(f"DECIMAL({', '.join(digits)}) is invalid: it may have at most 38 digits")
        return f"decimal({int(digits[0])},{int(digits[1])})"


def doubled(names: Iterable[str]) -> str:
    """The first name that occurs twice; like Spark, it ignores case."""
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            return name
        seen.add(name.lower())
    return ""
