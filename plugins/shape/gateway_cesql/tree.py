"""The syntax tree, and its text."""

from __future__ import annotations

from dataclasses import dataclass, field

from .functions import find
from .types import Type, Value, type_of


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    value: Value

    # written out, since True == 1 in Python but not here
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and type(self.value) is type(other.value) and self.value == other.value

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))


@dataclass(frozen=True, slots=True)
class Attribute:
    name: str


@dataclass(frozen=True, slots=True)
class Exists:
    name: str


@dataclass(frozen=True, slots=True)
class Not:
    operand: Node


@dataclass(frozen=True, slots=True)
class Negate:
    operand: Node


@dataclass(frozen=True, slots=True)
class Binary:
    """Arithmetic (`* / % + -`) and comparison (`= != < <= > >=`; `<>` is `!=`)."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Logic:
    """A chain of AND, OR and XOR, which have the same precedence and are left-associative."""

    first: Node
    rest: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class Like:
    operand: Node
    pattern: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class In:
    operand: Node
    items: tuple[Node, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """`name` is upper-case; `position` is its character in the text, from 1."""

    name: str
    arguments: tuple[Node, ...]
    position: int = field(default=0, compare=False)


Node = Literal | Attribute | Exists | Not | Negate | Binary | Logic | Like | In | Call

LOGIC = ("AND", "OR", "XOR")
COMPARISON = ("=", "!=", "<>", "<=", ">=", "<", ">")
# operator precedence (section 3.6); operands that bind less tightly need parentheses
LOGIC_POWER, COMPARE_POWER, ADD_POWER, MULTIPLY_POWER, IN_POWER, LIKE_POWER, UNARY_POWER, ATOM_POWER = range(1, 9)
POWER = (
    dict.fromkeys(LOGIC, LOGIC_POWER)
    | dict.fromkeys(COMPARISON, COMPARE_POWER)
    | dict.fromkeys("+-", ADD_POWER)
    | dict.fromkeys("*/%", MULTIPLY_POWER)
    | {"IN": IN_POWER, "LIKE": LIKE_POWER}
)


def static_type(node: Node) -> Type | None:
    """The type of a node's value; None for an attribute and for a call of an unknown function."""
    match node:
        case Literal(value):
            return type_of(value)
        case Attribute():
            return None
        case Negate():
            return Type.INTEGER
        case Binary(operator):
            return Type.BOOLEAN if operator in COMPARISON else Type.INTEGER
        case Call(name, arguments):
            function = find(name, len(arguments))
            return function.returns if function else None
    return Type.BOOLEAN


def text(node: Node) -> str:
    """The expression that parses into this tree."""
    return _text(node, 0)


def quoted(value: str) -> str:
    """A string literal. Raises ValueError for the few values without a literal: backslashes stay in a literal, so a
    value can't end with an odd number of them, nor contain both quotes after a backslash."""
    for quote in "'\"":
        literal = quote + value.replace(quote, "\\" + quote) + quote
        if _spells(literal, value):
            return literal
    raise ValueError(f"no string literal can express {value!r}")


def _spells(literal: str, value: str) -> bool:
    from .lexer import STRING, unquote

    return STRING.fullmatch(literal) is not None and unquote(literal) == value


def _text(node: Node, least: int) -> str:
    shown, power = _shown(node)
    return f"({shown})" if power < least else shown


def _shown(node: Node) -> tuple[str, int]:
    match node:
        case Literal(bool(value)):
            return ("TRUE" if value else "FALSE"), ATOM_POWER
        case Literal(str(value)):
            return quoted(value), ATOM_POWER
        case Literal(value):
            return str(value), ATOM_POWER
        case Attribute(name):
            return name, ATOM_POWER
        case Exists(name):
            return f"EXISTS {name}", ATOM_POWER
        case Not(operand):
            return f"NOT {_text(operand, UNARY_POWER)}", UNARY_POWER
        case Negate(operand):
            digits = isinstance(operand, Literal) and type(operand.value) is int and operand.value >= 0
            return (f"-({_text(operand, 0)})" if digits else f"-{_text(operand, UNARY_POWER)}"), UNARY_POWER
        case Binary(operator, left, right):
            power = POWER[operator]
            return f"{_text(left, power)} {operator} {_text(right, power + 1)}", power
        case Logic(first, rest):
            further = [f" {operator} {_text(operand, LOGIC_POWER + 1)}" for operator, operand in rest]
            return _text(first, LOGIC_POWER + 1) + "".join(further), LOGIC_POWER
        case Like(operand, pattern, negated):
            word = "NOT LIKE" if negated else "LIKE"
            return f"{_text(operand, LIKE_POWER)} {word} {quoted(pattern)}", LIKE_POWER
        case In(operand, items, negated):
            word = "NOT IN" if negated else "IN"
            return f"{_text(operand, IN_POWER)} {word} ({', '.join(map(text, items))})", IN_POWER
        case Call(name, arguments):
            return f"{name}({', '.join(map(text, arguments))})", ATOM_POWER
