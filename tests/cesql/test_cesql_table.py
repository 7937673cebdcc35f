"""CESQL 1.0.0 case by case: every operator, function, cast, precedence rule and error that the specification names."""

from __future__ import annotations

import pytest
from gateway_cesql import ParseError, compile

from gateway_core.contract.event import Event

EVENT = Event(
    {
        "specversion": "1.0",
        "id": "e-77",
        "source": "https://shop.example/eu",
        "type": "order.paid",
        "subject": "eu/berlin/42",
        "time": "2024-05-06T07:08:09+02:00",
        "count": 12,  # as JSON carries it
        "hops": "12",  # as a header carries it
        "padded": "0012",
        "flag": True,
        "flagtext": "True",
        "empty": "",
        "big": 3_000_000_000,
        "map": {"a": 1},
        "1st": "one",
        "nothing": None,
    }
)

# name: (expression, value) or (expression, value, kind of error)
CASES: dict[str, tuple[object, ...]] = {}


def section(prefix: str, *cases: tuple[object, ...]) -> None:
    for number, case in enumerate(cases, 1):
        CASES[f"{prefix} {number:02}: {case[0]}"] = case


section(
    "literal",
    ("TRUE", True), ("true", True), ("tRUe", True), ("FALSE", False), ("fAlse", False),
    ("0", 0), ("7", 7), ("+7", 7), ("-7", -7), ("007", 7), ("2147483647", 2147483647), ("-2147483648", -2147483648),
    ("''", ""), ('""', ""), ("'Mixed Case'", "Mixed Case"), ('"Mixed"', "Mixed"), ("'ünï 🚀'", "ünï 🚀"),
    (r"'it\'s'", "it's"), (r'"say \"x\""', 'say "x"'), ("'a\"b'", 'a"b'), ('"a\'b"', "a'b"),
    (r"'a\"b'", 'a\\"b'), (r"'c:\dir'", r"c:\dir"), (r"'a\\b'", r"a\\b"), ("'two\nlines'", "two\nlines"),
    (" \t\r\n 5 \n", 5), ("'AND'", "AND"), ("'%_'", "%_"),
)  # fmt: skip
section(
    "attribute",
    ("id", "e-77"), ("source", "https://shop.example/eu"), ("time", "2024-05-06T07:08:09+02:00"), ("count", 12),
    ("hops", "12"), ("flag", True), ("flagtext", "True"), ("empty", ""), ("big", "3000000000"), ("map", '{"a":1}'),
    ("1st", "one"), ("TYPE", "order.paid"), ("gone", False, "missingAttribute"), ("(gone)", False, "missingAttribute"),
    ("nothing", False, "missingAttribute"),
)  # fmt: skip
section(
    "missing attribute",
    ("gone = ''", False, "missingAttribute"), ("gone != 'x'", False, "missingAttribute"),
    ("gone <> 3", False, "missingAttribute"), ("3 = gone", False, "missingAttribute"),
    ("gone < 3", False, "missingAttribute"), ("3 >= gone", False, "missingAttribute"),
    ("gone + 1", 0, "missingAttribute"), ("1 - gone", 0, "missingAttribute"), ("gone * 0", 0, "missingAttribute"),
    ("8 / gone", 0, "missingAttribute"), ("gone / 0", 0, "missingAttribute"), ("gone % 0", 0, "missingAttribute"),
    ("-gone", 0, "missingAttribute"), ("NOT gone", False, "missingAttribute"),
    ("gone AND TRUE", False, "missingAttribute"), ("TRUE AND gone", False, "missingAttribute"),
    ("FALSE AND gone", False), ("TRUE OR gone", True), ("FALSE OR gone", False, "missingAttribute"),
    ("gone OR TRUE", False, "missingAttribute"), ("gone XOR TRUE", False, "missingAttribute"),
    ("gone LIKE '%'", False, "missingAttribute"), ("gone NOT LIKE 'x'", False, "missingAttribute"),
    ("gone IN ('x')", False, "missingAttribute"), ("gone NOT IN ('x')", False, "missingAttribute"),
    ("id IN ('x', gone)", False, "missingAttribute"), ("LENGTH(gone)", 0, "missingAttribute"),
    ("UPPER(gone)", "", "missingAttribute"), ("CONCAT('a', gone)", "", "missingAttribute"),
    ("INT(gone)", 0, "missingAttribute"), ("BOOL(gone)", False, "missingAttribute"),
    ("STRING(gone)", "", "missingAttribute"), ("ABS(gone)", 0, "missingAttribute"),
    ("TRUE AND (gone = '')", False, "missingAttribute"),
)  # fmt: skip
section(
    "exists",
    ("EXISTS id", True), ("EXISTS specversion AND EXISTS source AND EXISTS type", True), ("exists subject", True),
    ("EXISTS gone", False), ("NOT EXISTS gone", True), ("NOT EXISTS id", False), ("EXISTS empty", True),
    ("EXISTS 1st", True), ("EXISTS SUBJECT", True), ("EXISTS nothing", False), ("EXISTS id = TRUE", True),
)  # fmt: skip
section(
    "comparison",
    ("1 = 1", True), ("1 = 2", False), ("1 != 2", True), ("1 != 1", False), ("1 <> 2", True), ("1 <> 1", False),
    ("'a' = 'a'", True), ("'a' = 'A'", False), ("'a' != 'A'", True), ("'a' <> 'a'", False),
    ("TRUE = TRUE", True), ("TRUE = FALSE", False), ("TRUE != FALSE", True), ("FALSE <> FALSE", False),
    ("1 < 2", True), ("2 < 2", False), ("3 < 2", False), ("1 <= 2", True), ("2 <= 2", True), ("3 <= 2", False),
    ("2 > 1", True), ("2 > 2", False), ("2 >= 2", True), ("2 >= 3", False), ("-5 < -4", True),
    ("'10' > '9'", True), ("TRUE > FALSE", True), ("hops < 100", True), ("count >= hops", True),
    ("'x' < 1", False, "cast"), ("1 > 'x'", False, "cast"),
)  # fmt: skip
section(
    "the right operand decides the type",
    ("hops = 12", True), ("padded = 12", True), ("padded = '12'", False), ("count = '12'", True),
    ("count = '012'", False), ("12 = hops", True), ("'012' = count", True), ("flag = 'true'", True),
    ("flag = 'TRUE'", False), ("flagtext = TRUE", True), ("flagtext = 'true'", False), ("flag = 1", True),
    ("1 = flag", True), ("0 = FALSE", True), ("5 = TRUE", True), ("TRUE = 'true' AND FALSE = 'false'", True),
    ("TRUE = 'TRUE' OR FALSE = 'FALSE'", False), ("'TRUE' = TRUE", True), ("big = '3000000000'", True),
    ("id = 5", False, "cast"), ("id != 5", False, "cast"), ("id = TRUE", False, "cast"), ("big = 1", False, "cast"),
)  # fmt: skip
section(
    "logic",
    ("TRUE AND TRUE", True), ("TRUE AND FALSE", False), ("FALSE AND TRUE", False), ("FALSE AND FALSE", False),
    ("TRUE OR TRUE", True), ("TRUE OR FALSE", True), ("FALSE OR TRUE", True), ("FALSE OR FALSE", False),
    ("TRUE XOR TRUE", False), ("TRUE XOR FALSE", True), ("FALSE XOR TRUE", True), ("FALSE XOR FALSE", False),
    ("true and not false", True), ("NOT TRUE", False), ("NOT FALSE", True), ("NOT NOT TRUE", True),
    ("NOT 'true'", False), ("NOT 'FaLsE'", True), ("NOT 10", False), ("NOT 0", True), ("NOT 'x'", False, "cast"),
    ("'true' AND 1", True), ("0 OR 'TRUE'", True), ("1 XOR '' ", False, "cast"), ("'x' OR TRUE", False, "cast"),
    ("FALSE AND 1 / 0 = 1", False), ("TRUE OR 1 / 0 = 1", True), ("TRUE AND 1 / 0 = 1", False, "math"),
    ("FALSE OR 0 != 1 / 0", False, "math"), ("TRUE XOR 1 / 0 = 1", False, "math"),
    ("FALSE AND TRUE AND 'x'", False), ("TRUE OR FALSE OR 'x'", True),
)  # fmt: skip
section(
    "arithmetic",
    ("3 + 4", 7), ("3 - 4", -1), ("3 * -4", -12), ("3+4", 7), ("3-4", -1), ("3 -4", -1), ("3 - -4", 7),
    ("7 / 2", 3), ("-7 / 2", -3), ("7 / -2", -3), ("-7 / -2", 3), ("7 % 3", 1), ("-7 % 3", -1), ("7 % -3", 1),
    ("-7 % -3", -1), ("0 / 5", 0), ("1 / 0", 0, "math"), ("1 % 0", 0, "math"), ("'6' * '7'", 42),
    ("6 + TRUE", 7), ("'1' - FALSE", 1), ("count + hops", 24), ("'a' + 1", 0, "cast"), ("1 + ''", 0, "cast"),
    ("2147483647 + 1", 0, "math"), ("-2147483648 - 1", 0, "math"), ("65536 * 65536", 0, "math"),
    ("-2147483648 / -1", 0, "math"), ("-2147483648 % -1", 0), ("-hops", -12), ("--5", 5), ("- 5", -5), ("-(5)", -5),
    ("-'10'", -10), ("-TRUE", -1), ("-'x'", 0, "cast"), ("--2147483648", 0, "math"),
)  # fmt: skip
section(
    "precedence",
    ("2 + 3 * 4", 14), ("(2 + 3) * 4", 20), ("20 / 2 * 5", 50), ("20 - 5 - 3", 12), ("20 - (5 - 3)", 18),
    ("9 % 5 * 2", 8), ("-2 + 5", 3), ("-(2 + 5)", -7), ("1 + 1 = 2", True), ("2 = 1 + 1", True),
    ("3 < 2 + 2", True), ("1 = 1 = TRUE", True), ("3 > 2 > 0", True), ("NOT 1 = 0", True), ("NOT (1 = 0)", True),
    ("NOT FALSE = FALSE", False), ("NOT TRUE LIKE 'f%'", True), ("-1 LIKE '-_'", True), ("-count LIKE '-%'", True),
    ("1 + 2 LIKE '2'", 2), ("1 + 3 LIKE '2'", 1), ("'ab' LIKE 'a%' = TRUE", True), ("1 + 2 IN (3)", 1),
    ("(1 + 2) IN (3)", True),
    ("1 < 2 AND 3 < 2", False), ("TRUE OR TRUE AND FALSE", False), ("TRUE OR (TRUE AND FALSE)", True),
    ("FALSE AND FALSE OR TRUE", True), ("FALSE AND (FALSE OR TRUE)", False), ("TRUE XOR TRUE OR TRUE", True),
    ("TRUE XOR TRUE AND FALSE", False), ("TRUE OR FALSE XOR TRUE", False), ("'a' LIKE 'a' IN (TRUE)", True),
    ("NOT EXISTS gone AND TRUE", True), ("((((1))))", 1),
)  # fmt: skip
section(
    "like",
    ("'tide' LIKE 'tide'", True), ("'tide' LIKE 'Tide'", False), ("'tide' NOT LIKE 'tide'", False),
    ("'tide' NOT LIKE 'gate'", True), ("'tide' LIKE '%'", True), ("'' LIKE '%'", True), ("'' LIKE ''", True),
    ("'a' LIKE ''", False), ("'' LIKE '_'", False), ("'tide' LIKE 't%'", True), ("'tide' LIKE '%de'", True),
    ("'tide' LIKE '%id%'", True), ("'tide' LIKE 't%e'", True), ("'tide' LIKE 't_d_'", True),
    ("'tide' LIKE '____'", True), ("'tide' LIKE '___'", False), ("'tide' LIKE '_____'", False),
    ("'tide' LIKE '%_%_%'", True), ("'abab' LIKE '%ab'", True), ("'aXbXc' LIKE 'a%b%c'", True),
    ("'acb' LIKE 'a%b%c'", False), ("'aba' LIKE 'ab%ba'", False), ("'x.y' LIKE 'x_y'", True),
    ("'xzy' LIKE 'x.y'", False), ("'a*' LIKE 'a*'", True), ("'(a' LIKE '(_'", True), ("'a\nb' LIKE 'a%b'", True),
    ("'a\nb' LIKE 'a_b'", True), ("'a\n' LIKE 'a'", False), (r"'5%' LIKE '5\%'", True), (r"'50' LIKE '5\%'", False),
    (r"'a_b' LIKE 'a\_b'", True), (r"'axb' LIKE 'a\_b'", False), (r"'a\b' LIKE 'a\b'", True),
    (r"'x\%' LIKE 'x\\%'", True), (r"'x\y' LIKE 'x\\%'", False), ("'🚀' LIKE '_'", True), ("345 LIKE '3_5'", True),
    ("TRUE LIKE 'tr%'", True), ("FALSE LIKE 'tr%'", False), ("count LIKE '1_'", True), ("flag LIKE 'true'", True),
    ("subject LIKE 'eu/%/4_'", True), ("subject NOT LIKE 'eu/%'", False), ("type like '%.paid'", True),
    (r"'it\'s' LIKE 'it\'s'", True), ("'abcbc' LIKE '%b_'", True),
)  # fmt: skip
section(
    "in",
    ("3 IN (1, 2, 3)", True), ("3 IN (1)", False), ("3 NOT IN (1, 2)", True), ("3 not in (3)", False),
    ("'a' IN ('b', 'a')", True), ("'a' IN ('A')", False), ("TRUE IN (FALSE, TRUE)", True), ("FALSE IN (TRUE)", False),
    ("type IN ('order.paid', 'order.sent')", True), ("type NOT IN ('order.paid')", False),
    ("id IN (type, 'e-77')", True), ("id IN (id)", True), ("3 IN (1 + 2)", True), ("12 IN (hops)", True),
    ("12 IN ('012')", True), ("'12' IN (12)", True), ("'012' IN (12)", False), ("'true' IN (TRUE)", True),
    ("'TRUE' IN (TRUE)", False), ("TRUE IN ('TRUE')", True), ("count IN ('012')", True), ("hops IN ('012')", False),
    ("hops IN (12)", True), ("1 IN (TRUE)", True), ("TRUE IN (7)", True), ("1 IN ('x')", False, "cast"),
    ("1 IN (1, 'x')", False, "cast"), ("1 IN (1, 1 / 0)", False, "math"), ("1 NOT IN ('x')", False, "cast"),
)  # fmt: skip
section(
    "cast",
    ("INT('15')", 15), ("INT('+15')", 15), ("INT('-15')", -15), ("INT('0015')", 15), ("INT(15)", 15), ("INT(TRUE)", 1),
    ("INT(FALSE)", 0), ("INT('-2147483648')", -2147483648), ("INT('2147483648')", 0, "cast"), ("INT('')", 0, "cast"),
    ("INT(' 1')", 0, "cast"), ("INT('1_0')", 0, "cast"), ("INT('1.0')", 0, "cast"), ("INT('٣')", 0, "cast"),
    ("INT('--1')", 0, "cast"), ("INT('true')", 0, "cast"), ("BOOL('true')", True), ("BOOL('FALSE')", False),
    ("BOOL(TRUE)", True), ("BOOL(0)", False), ("BOOL(-3)", True), ("BOOL('1')", False, "cast"),
    ("BOOL('')", False, "cast"), ("BOOL(' true')", False, "cast"), ("STRING(TRUE)", "true"),
    ("STRING(FALSE)", "false"), ("STRING(-12)", "-12"), ("STRING(007)", "7"), ("STRING('x')", "x"), ("int('4')", 4),
    ("Bool('true')", True), ("string(1)", "1"), ("INT (4)", 4),
)  # fmt: skip
section(
    "function",
    ("LENGTH('tide')", 4), ("LENGTH('')", 0), ("LENGTH('🚀é')", 2), ("LENGTH(TRUE)", 4), ("LENGTH(-12)", 3),
    ("CONCAT()", ""), ("CONCAT('a')", "a"), ("CONCAT('a', 1, TRUE)", "a1true"), ("CONCAT_WS('-')", ""),
    ("CONCAT_WS('-', 'a')", "a"), ("CONCAT_WS('-', 'a', 'b', 3)", "a-b-3"), ("concat_ws(0, 1, 2)", "102"),
    ("LOWER('TiDE')", "tide"), ("UPPER('TiDe')", "TIDE"), ("LOWER('ÄÖ')", "äö"), ("UPPER(TRUE)", "TRUE"),
    ("TRIM('  a b  ')", "a b"), ("TRIM('\t\n\u00a0\u2003x\u3000')", "x"), ("TRIM('\x1fx\x1c')", "\x1fx\x1c"),
    ("TRIM('\u200bx')", "\u200bx"), ("TRIM('')", ""),
    ("LEFT('tide', 2)", "ti"), ("LEFT('tide', 4)", "tide"), ("LEFT('tide', 9)", "tide"), ("LEFT('tide', 0)", ""),
    ("LEFT('tide', -1)", "tide", "functionEvaluation"), ("LEFT(12345, '2')", "12"),
    ("RIGHT('tide', 2)", "de"), ("RIGHT('tide', 4)", "tide"), ("RIGHT('tide', 9)", "tide"), ("RIGHT('tide', 0)", ""),
    ("RIGHT('tide', -1)", "tide", "functionEvaluation"), ("RIGHT('tide', 'x')", "", "cast"),
    ("SUBSTRING('harbour', 1)", "harbour"), ("SUBSTRING('harbour', 4)", "bour"), ("SUBSTRING('harbour', 7)", "r"),
    ("SUBSTRING('harbour', -4)", "bour"), ("SUBSTRING('harbour', -7)", "harbour"), ("SUBSTRING('harbour', 0)", ""),
    ("SUBSTRING('harbour', 8)", "", "functionEvaluation"), ("SUBSTRING('harbour', -8)", "", "functionEvaluation"),
    ("SUBSTRING('harbour', 2, 3)", "arb"), ("SUBSTRING('harbour', 5, 99)", "our"),
    ("SUBSTRING('harbour', -4, 2)", "bo"), ("SUBSTRING('harbour', 0, 3)", ""), ("SUBSTRING('harbour', 3, 0)", ""),
    ("SUBSTRING('harbour', 3, -1)", "", "functionEvaluation"),
    ("SUBSTRING('harbour', 8, 1)", "", "functionEvaluation"), ("SUBSTRING('', 0)", ""),
    ("ABS(5)", 5), ("ABS(-5)", 5), ("ABS(0)", 0), ("ABS('-5')", 5), ("ABS(-2147483648)", 2147483647, "math"),
    ("ABS(-2147483648) = 2147483647", False, "math"), ("LENGTH(LEFT('ab', -1))", 0, "functionEvaluation"),
    ("NOPE()", False, "missingFunction"), ("NOPE(1) + 1", 0, "missingFunction"),
    ("NOPE(1 / 0)", False, "missingFunction"),
    ("LENGTH()", False, "missingFunction"), ("LENGTH('a', 'b')", False, "missingFunction"),
    ("CONCAT_WS()", False, "missingFunction"), ("SUBSTRING('a')", False, "missingFunction"),
    ("ABS(1, 2)", False, "missingFunction"), ("FALSE AND NOPE()", False), ("LENGTH(CONCAT(id, type)) + 1", 15),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_specification_case_by_case(case: tuple[object, ...]) -> None:
    expression, wanted, *errors = case
    value, found = compile(str(expression)).evaluate(EVENT)
    assert (type(value), value, [e.kind for e in found]) == (type(wanted), wanted, errors)


PARSE_ERRORS: dict[str, tuple[str, int, str]] = {
    "nothing at all": ("", 1, "expected a value"),
    "an open call": ("ABC(", 5, "expected a value"),
    "an open parenthesis": ("(1", 3, "close the parenthesis"),
    "a closing parenthesis too many": ("1)", 2, "expected one expression"),
    "two values": ("id type", 4, "expected one expression"),
    "an operator without right side": ("id =", 5, "expected a value"),
    "an operator without left side": ("= 1", 1, "expected a value"),
    "LIKE with a number": ("id LIKE 123", 9, "expected a string"),
    "LIKE with an attribute": ("id LIKE type", 9, "expected a string"),
    "LIKE with an expression": ("id LIKE ('a')", 9, "expected a string"),
    "an empty IN list": ("id IN ()", 9, "an empty list"),
    "IN without list": ("id IN 'a'", 7, "list in parentheses"),
    "a comma at the end": ("CONCAT('a',)", 12, "expected a value"),
    "NOT between values": ("id NOT 'a'", 4, "NOT between two values"),
    "EXISTS with a literal": ("EXISTS 'id'", 8, "attribute's name"),
    "EXISTS with a keyword": ("EXISTS and", 8, "attribute's name"),
    "EXISTS with parentheses": ("EXISTS (id)", 8, "attribute's name"),
    "an open string": ("id = 'abc", 6, "does not end"),
    "an escaped end of string": (r"'abc\'", 1, "does not end"),
    "a doubled quote": ("'it''s'", 5, "expected one expression"),
    "an Integer above 32 bits": ("2147483648", 1, "out of range"),
    "an Integer below 32 bits": ("-2147483649", 1, "out of range"),
    "a lone plus": ("+id", 1, "'+'"),
    "a strange character": ("id = $1", 6, "unexpected"),
    "a double equals sign": ("id == 'a'", 5, "expected a value"),
    "an attribute with underscore": ("my_ext = 1", 1, "letters and digits"),
    "a function with a digit": ("F2(1)", 1, "letters and '_'"),
    "a keyword as value": ("id = LIKE", 6, "expected a value"),
    "a decimal": ("1.5", 2, "unexpected"),
}


@pytest.mark.parametrize(("expression", "position", "says"), PARSE_ERRORS.values(), ids=PARSE_ERRORS)
def test_a_parse_error_has_position_and_remedy(expression: str, position: int, says: str) -> None:
    with pytest.raises(ParseError) as e:
        compile(expression)
    assert (e.value.position, bool(e.value.remedy)) == (position, True)
    assert says in str(e.value)
    assert isinstance(e.value, ValueError)


def test_the_table_is_as_large_as_it_claims() -> None:
    assert len(CASES) + len(PARSE_ERRORS) >= 400
