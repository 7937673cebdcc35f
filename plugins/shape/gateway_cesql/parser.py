"""Parses tokens into a tree: an operator-precedence (Pratt) parser (CESQL sections 2 and 3.6)."""

from __future__ import annotations

import re

from .errors import ParseError
from .lexer import Token, tokens, unquote
from .tree import (
    LOGIC,
    LOGIC_POWER,
    POWER,
    UNARY_POWER,
    Attribute,
    Binary,
    Call,
    Exists,
    In,
    Like,
    Literal,
    Logic,
    Negate,
    Node,
    Not,
)
from .types import integer_in

MAX_DEPTH = 64
"""Maximum nesting depth of parentheses, calls and operators."""

_FUNCTION = re.compile(r"[A-Za-z][A-Za-z_]*")


def parse(source: str) -> Node:
    """The tree of an expression. Raises `ParseError`."""
    parser = _Parser(tokens(source))
    node = parser.expression(0, 1)
    parser.take("end", "one expression", "remove the rest, or join it with AND, OR or XOR")
    return node


class _Parser:
    def __init__(self, found: list[Token]) -> None:
        self._tokens = found
        self._next = 0
        self._heights: dict[int, int] = {}  # of all nodes, by id(); the parser's list keeps them alive
        self._nodes: list[Node] = []

    @property
    def token(self) -> Token:
        return self._tokens[self._next]

    def advance(self) -> Token:
        token = self.token
        if token.kind != "end":
            self._next += 1
        return token

    def take(self, kind: str, wanted: str, remedy: str) -> Token:
        if self.token.kind != kind:
            raise self.fault(f"expected {wanted}, found {_named(self.token)}", remedy)
        return self.advance()

    def fault(self, message: str, remedy: str) -> ParseError:
        return ParseError(message, self.token.start + 1, remedy)

    def made(self, node: Node, *parts: Node) -> Node:
        """Records the height of a tree, because code that walks it later may recurse."""
        height = 1 + max((self._heights[id(part)] for part in parts), default=0)
        self.check_depth(height)
        self._heights[id(node)] = height
        self._nodes.append(node)
        return node

    def check_depth(self, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise self.fault(f"nested deeper than {MAX_DEPTH} levels", "split it into several filters")

    # -- expressions ------------------------------------------------------------------------------------------------

    def expression(self, least: int, depth: int) -> Node:
        """An expression whose operators bind at least as tightly as `least`."""
        self.check_depth(depth)
        left = self.operand(depth)
        while True:
            word, negated = self.operator()
            power = POWER.get(word, 0)
            if power == 0 or power < least:
                return left
            if word in LOGIC:
                left = self.logic(left, depth)
                continue
            self._next += 1 + negated
            if word == "LIKE":
                left = self.like(left, negated)
            elif word == "IN":
                left = self.membership(left, negated, depth)
            else:
                right = self.expression(power + 1, depth + 1)
                left = self.made(Binary("!=" if word == "<>" else word, left, right), left, right)

    def operator(self) -> tuple[str, bool]:
        """The next operator, and whether it is a negated LIKE or IN."""
        kind = self.token.kind
        if kind == "NOT":
            following = self._tokens[self._next + 1].kind
            if following in ("LIKE", "IN"):
                return following, True
            raise self.fault("NOT between two values", "NOT stands before a value, or in NOT LIKE and NOT IN")
        return kind, False

    def logic(self, first: Node, depth: int) -> Node:
        rest: list[tuple[str, Node]] = []
        while self.token.kind in LOGIC:
            rest.append((self.advance().kind, self.expression(LOGIC_POWER + 1, depth + 1)))
        return self.made(Logic(first, tuple(rest)), first, *(node for _, node in rest))

    def like(self, left: Node, negated: bool) -> Node:
        pattern = self.take("string", "a string as pattern", "LIKE takes a quoted string: subject LIKE 'abc%'")
        return self.made(Like(left, unquote(pattern.text), negated), left)

    def membership(self, left: Node, negated: bool, depth: int) -> Node:
        self.take("(", "a list in parentheses", "IN takes values in parentheses: type IN ('a', 'b')")
        items = self.listed(depth)
        if not items:
            raise self.fault("an empty list", "IN needs one value at least")
        return self.made(In(left, items, negated), left, *items)

    def listed(self, depth: int) -> tuple[Node, ...]:
        """Expressions up to the closing parenthesis, after the opening one."""
        if self.token.kind == ")":
            self.advance()
            return ()
        items = [self.expression(0, depth + 1)]
        while self.token.kind == ",":
            self.advance()
            items.append(self.expression(0, depth + 1))
        self.take(")", "',' or ')'", "close the parenthesis")
        return tuple(items)

    # -- operands ---------------------------------------------------------------------------------------------------

    def operand(self, depth: int) -> Node:
        token = self.advance()
        match token.kind:
            case "string":
                return self.made(Literal(unquote(token.text)))
            case "TRUE" | "FALSE":
                return self.made(Literal(token.kind == "TRUE"))
            case "integer":
                return self.number(token.text, token)
            case "-" | "+":
                return self.signed(token, depth)
            case "NOT":
                operand = self.expression(UNARY_POWER, depth + 1)
                return self.made(Not(operand), operand)
            case "EXISTS":
                return self.exists()
            case "(":
                node = self.expression(0, depth + 1)
                self.take(")", "')'", "close the parenthesis")
                return node
            case "word" if self.token.kind == "(":
                return self.call(token, depth)
            case "word":
                return self.made(Attribute(_attribute(token)))
        remedy = "write an attribute, a literal, a function call or an expression in parentheses"
        raise ParseError(f"expected a value, found {_named(token)}", token.start + 1, remedy)

    def number(self, text: str, token: Token) -> Node:
        number = integer_in(text)
        if number is None:
            remedy = "Integers go from -2147483648 to 2147483647; quote it to compare it as text"
            raise ParseError(f"{text[:40]} is out of range", token.start + 1, remedy)
        return self.made(Literal(number))

    def signed(self, token: Token, depth: int) -> Node:
        # a sign directly before digits is part of the literal: -2147483648 has no positive counterpart
        if self.token.kind == "integer" and self.token.start == token.end:
            return self.number(token.text + self.advance().text, token)
        if token.kind == "+":
            raise ParseError("'+' without a value before it", token.start + 1, "write +5 without a space, or drop it")
        operand = self.expression(UNARY_POWER, depth + 1)
        return self.made(Negate(operand), operand)

    def exists(self) -> Node:
        if self.token.kind not in ("word", "integer"):
            raise self.fault(f"expected an attribute's name, found {_named(self.token)}", "write EXISTS subject")
        return self.made(Exists(_attribute(self.advance())))

    def call(self, name: Token, depth: int) -> Node:
        if not _FUNCTION.fullmatch(name.text):
            remedy = "names of functions have letters and '_' only"
            raise ParseError(f"{name.text!r} can't be a function", name.start + 1, remedy)
        self.advance()
        arguments = self.listed(depth)
        return self.made(Call(name.text.upper(), arguments, name.start + 1), *arguments)


def _attribute(token: Token) -> str:
    if "_" in token.text:
        remedy = "names of attributes have letters and digits only"
        raise ParseError(f"{token.text!r} can't be an attribute", token.start + 1, remedy)
    return token.text.lower()


def _named(token: Token) -> str:
    return "the end" if token.kind == "end" else repr(token.text[:40])
