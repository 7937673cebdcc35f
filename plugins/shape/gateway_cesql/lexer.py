"""Splits text into tokens (CESQL sections 2.1 to 2.4)."""

from __future__ import annotations

import re
from typing import NamedTuple

from .errors import ParseError

MAX_LENGTH = 65_536
"""The longest expression, in characters."""

KEYWORDS = frozenset({"AND", "OR", "XOR", "NOT", "LIKE", "IN", "EXISTS", "TRUE", "FALSE"})
# a character after a backslash never ends the literal (the specification's lexer grammar)
STRING = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
_SPACE = re.compile(r"[ \t\r\n]+")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]*")
_SYMBOL = re.compile(r"!=|<>|<=|>=|[-+*/%=<>(),]")


class Token(NamedTuple):
    """`kind` is a keyword, a symbol, or one of `string`, `integer`, `word`, `end`. `start` and `end` are offsets."""

    kind: str
    text: str
    start: int
    end: int


def tokens(source: str) -> list[Token]:
    """All tokens of an expression, then one of kind `end`. Raises `ParseError`."""
    if len(source) > MAX_LENGTH:
        raise ParseError(f"the expression has {len(source)} characters", 1, f"write at most {MAX_LENGTH}")
    found: list[Token] = []
    at = 0
    while at < len(source):
        if space := _SPACE.match(source, at):
            at = space.end()
            continue
        token = _token(source, at)
        found.append(token)
        at = token.end
    found.append(Token("end", "", at, at))
    return found


def unquote(literal: str) -> str:
    """The value of a string literal: only its own quote can be escaped; any other backslash stays."""
    quote = literal[0]
    return re.sub(r"\\(.)", lambda m: quote if m[1] == quote else m[0], literal[1:-1], flags=re.DOTALL)


def _token(source: str, at: int) -> Token:
    if word := _WORD.match(source, at):
        return Token(_kind_of(word[0]), word[0], at, word.end())
    if symbol := _SYMBOL.match(source, at):
        return Token(symbol[0], symbol[0], at, symbol.end())
    if string := STRING.match(source, at):
        return Token("string", string[0], at, string.end())
    if source[at] in "'\"":
        raise ParseError("a string that does not end", at + 1, f"close it with {source[at]}")
    raise ParseError(f"unexpected {source[at]!r}", at + 1, "quote texts; join conditions with AND, OR and XOR")


def _kind_of(word: str) -> str:
    if word.upper() in KEYWORDS:
        return word.upper()
    return "integer" if word.isdigit() else "word"
