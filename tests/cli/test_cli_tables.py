"""Tables on a terminal: nothing is cut, however narrow it is."""

from __future__ import annotations

import pytest
from gateway_admin.cli.status import tables
from gateway_terminal.tables import rich_table
from rich.console import Console

from gateway_core.contract.status import GatewayStatus

COLUMNS = ["trigger", "ready", "broker", "subscriber", "delivered", "attempts", "in flight", "lag"]
ROWS = [
    ["large-orders", "yes", "default", "http://127.0.0.1:8081/orders", "1234567", "1234567", "64", "1234567"],
    ["archive", "yes", "default", "file:///var/lib/tidegate/archive/orders.jsonl", "1", "1", "0", "0"],
]


def shown(width: int, columns: list[str], rows: list[list[str]]) -> list[str]:
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(rich_table("Triggers", columns, rows, width))
    return [line.rstrip() for line in captured.get().splitlines()]


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_no_value_is_cut_and_no_line_is_longer_than_the_terminal(width: int) -> None:
    lines = shown(width, COLUMNS, ROWS)
    assert max(map(len, lines)) <= width
    text = "".join("".join(lines).split())
    for row in ROWS:
        for value in (row[0], row[4], row[7]):
            assert value in text


def test_where_there_is_no_room_long_texts_stand_below_their_row() -> None:
    lines = shown(80, COLUMNS, ROWS)
    assert lines[1].split() == ["trigger", "ready", "broker", "delivered", "attempts", "in", "flight", "lag"]
    assert lines[4] == "    subscriber: http://127.0.0.1:8081/orders"
    assert lines[6] == "    subscriber: file:///var/lib/tidegate/archive/orders.jsonl"


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_no_word_of_tidegate_top_is_split(width: int) -> None:
    columns = ["trigger", "state", "delivered/s", "retried/s", "dead/s", "in flight", "waiting", "lag", "p50", "p99"]
    rows = [
        ["large-orders", "Delivering", "12,345", "0.5", "0", "64", "12", "1234567", "123 ms", "1.23 s"],
        ["archive", "SinkFailing", "0", "0", "0", "0", "0", "0", "3.75 ms", "45.2 ms"],
    ]
    lines = shown(width, columns, rows)
    assert max(map(len, lines)) <= width
    words = {word for line in lines for word in line.split()}
    assert {word for row in rows for value in row for word in value.split()} <= words


def test_with_room_they_stand_in_their_column() -> None:
    assert "subscriber" in shown(140, COLUMNS, ROWS)[1]


def test_markup_in_a_value_is_shown_as_it_is() -> None:
    assert "[bold]x[/bold]" in shown(80, ["name"], [["[bold]x[/bold]"]])[3]


def test_the_reason_has_a_column_only_where_something_does_not_work() -> None:
    broker = {"name": "b", "ingress": [], "channel": {"name": "log"}, "accepted": 1, "refused": 0, "unrouted": 0}

    def columns(*ready: bool, reason: str = "") -> tuple[list[str], list[list[str]]]:
        brokers = [{**broker, "ready": one, "reason": reason if one else "the disk is full"} for one in ready]
        _, names, rows = next(iter(tables(GatewayStatus.read({"version": "1", "brokers": brokers}))))
        return list(names), rows

    assert "reason" not in columns(True, True)[0]
    names, rows = columns(True, False)
    assert (names[-1], [row[-1] for row in rows]) == ("reason", ["", "the disk is full"])
    names, rows = columns(True, reason="1 of 2 sources do not work: away")  # it still takes events
    assert (names[-1], [row[1:2] + row[-1:] for row in rows]) == (
        "reason",
        [["yes", "1 of 2 sources do not work: away"]],
    )
