"""`tidegate dlq list` and `show` ask the running gateway, and the routes that answer them."""

from __future__ import annotations

import json
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from gateway_api.tokens import read_token
from gateway_testing import Subscriber

from gateway_core.cli import main
from tests.control.conftest import CONFIG

pytestmark = pytest.mark.usefixtures("processes")


REFUSED = (400, {}, b"not this one")


@pytest.fixture(scope="module")
def ids(console) -> list[str]:
    """Three dead letters of an applied trigger, of which the config's file knows nothing."""
    with Subscriber(default=REFUSED) as subscriber:
        applied = console.put("late", f"subscriber: {subscriber.url}\nfilter: {{type: late}}\n")
        assert applied.status_code == 201, applied.text
        for n in range(3):
            console.send(f"late-{n}", "late")
            console.gateway.wait_until(lambda n=n: len(rows(console)) == n + 1)
    return [row["id"] for row in rows(console)]


def rows(console) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = console.http.get("/api/v1/dead-letters").json()["items"]
    return found


@pytest.fixture
def tidegate(capsys, monkeypatch, tmp_path: Path) -> Callable[..., tuple[object, str, str]]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIDEGATE_CONFIG", raising=False)

    def run(*arguments: object) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as ended:
            main([str(a) for a in arguments])
        return (ended.value.code, *capsys.readouterr())

    return run


@pytest.mark.parametrize("way", ["data directory", "address"])
def test_letters_of_an_applied_trigger_are_listed_without_the_config(
    tidegate, console, ids, way: str, monkeypatch
) -> None:
    monkeypatch.setenv("TIDEGATE_ADMIN_TOKEN", read_token(console.gateway.data_dir))
    where = ("--admin", console.url) if way == "address" else ("--data-dir", console.gateway.data_dir)
    code, out, _ = tidegate("dlq", "list", *where, "--json")
    assert code == 0
    assert [(row["id"], row["broker"], row["trigger"]) for row in json.loads(out)] == [
        (id_, "default", "late") for id_ in ids
    ]
    assert len(json.loads(tidegate("dlq", "list", *where, "--reason", "400", "--trigger", "late", "--json")[1])) == 3
    assert json.loads(tidegate("dlq", "list", *where, "--broker", "nix", "--json")[1]) == []
    assert "the config has no broker 'nix'" in tidegate("dlq", "list", *where, "--broker", "nix")[1]
    shown = json.loads(tidegate("dlq", "show", *where, ids[1], "--json")[1])
    assert (shown["event"]["id"], shown["answer"], shown["code"]) == ("late-1", "not this one", "400")
    assert '"id": "late-1"' in tidegate("dlq", "show", *where, ids[1])[1]
    assert tidegate("dlq", "show", *where, "nix") == (1, "", "tidegate: there is no dead letter with the id nix\n")


def test_letters_come_in_pages(console, ids) -> None:
    def page(**query: int | str) -> tuple[list[str], bool]:
        document = console.http.get("/api/v1/dead-letters", params=query).json()
        return [row["id"] for row in document["items"]], document["more"]

    assert page(limit=2) == (ids[:2], True)
    assert page(limit=2, skip=2) == (ids[2:], False)
    assert page(limit=3) == (ids, False)
    assert page(skip=3) == ([], False)


@pytest.mark.parametrize("query", ["limit=1001", "limit=-1", "skip=x", "skip=9999999999999999999", "trigers=late"])
def test_a_bad_query_is_a_problem(console, query: str) -> None:
    response = console.http.get(f"/api/v1/dead-letters?{query}")
    assert (response.status_code, response.json()["title"]) == (422, HTTPStatus(422).phrase)
    assert query.partition("=")[0] in response.json()["detail"]


def test_a_letter_that_is_not_there_is_a_problem(console) -> None:
    response = console.http.get("/api/v1/dead-letters/nix")
    assert (response.status_code, response.json()["detail"]) == (404, "there is no dead letter with the id nix")


def test_a_killed_gateway_leaves_the_files_to_be_read(tidegate, start) -> None:
    with Subscriber(default=REFUSED) as subscriber:
        console = start(CONFIG.replace("URL", subscriber.url), {"THE_KEY": "hush-hush"})
        console.send("1", "own")
        console.gateway.wait_until(lambda: rows(console))
        console.gateway.kill()
    for named in ((), ("-c", "tidegate.yaml")):
        (row,) = json.loads(tidegate("dlq", "list", *named, "--data-dir", console.gateway.data_dir, "--json")[1])
        assert row["event_id"] == "1"
