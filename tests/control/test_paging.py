"""Pages of lists and of the status: together they have everything once, and a search narrows them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from gateway_testing import GatewayProcess

from tests import web

pytestmark = pytest.mark.usefixtures("processes")

NAMES = [f"t{number}" for number in range(25)]
CONFIG = """
brokers: {default: {ingress: [http: {listen: "127.0.0.1:0"}]}}
triggers:
"""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder: Path = tmp_path_factory.mktemp("paging")
    lines = [f'  {name}: {{filter: {{type: {name}}}, subscriber: "http://127.0.0.1:9/"}}\n' for name in NAMES]
    with (
        GatewayProcess(CONFIG + "".join(lines), folder) as gateway,
        web.client(base_url=gateway.admin_url, headers=gateway.admin_headers, timeout=60) as found,
    ):
        yield found


def names(path: str, document: dict[str, Any]) -> list[str]:
    if path == "/status":
        return [trigger["name"] for trigger in document["triggers"]]
    return [item["metadata"]["name"] for item in document["items"]]


def pages(client: httpx.Client, path: str, **query: object) -> list[list[str]]:
    """The names on each page, by the links."""
    found = []
    answer = client.get(path, params={key: str(value) for key, value in query.items()}).raise_for_status()
    while True:
        found.append(names(path, answer.json()))
        if (link := answer.links.get("next")) is None:
            return found
        answer = client.get(link["url"]).raise_for_status()


@pytest.mark.parametrize("path", ["/status", "/api/v1/triggers"])
def test_pages_cover_all_once(client: httpx.Client, path: str) -> None:
    found = pages(client, path, limit=10)
    assert [len(page) for page in found] == [10, 10, 5]
    assert [name for page in found for name in page] == sorted(NAMES)


@pytest.mark.parametrize("path", ["/status", "/api/v1/triggers"])
def test_without_a_limit_everything_is_there(client: httpx.Client, path: str) -> None:
    (found,) = pages(client, path)
    assert sorted(found) == sorted(NAMES)
    if path == "/status":
        assert found == NAMES, "as in the config"


@pytest.mark.parametrize("path", ["/status", "/api/v1/triggers"])
def test_a_search_narrows_a_list_and_its_pages(client: httpx.Client, path: str) -> None:
    wanted = sorted(name for name in NAMES if "t2" in name)
    assert pages(client, path, search="T2", limit=4) == [wanted[:4], wanted[4:]]
    assert pages(client, path, search="nothing") == [[]]


def test_the_rest_of_the_status_is_there_with_any_page(client: httpx.Client) -> None:
    whole, page = client.get("/status").json(), client.get("/status?limit=1").json()
    assert page.keys() == whole.keys()
    assert page["brokers"][0]["name"] == "default"


@pytest.mark.parametrize("limit", ["0", "-1", "x", "10001", "9" * 5000, "²"])
def test_a_limit_that_is_none_is_refused(client: httpx.Client, limit: str) -> None:
    answer = client.get("/status", params={"limit": limit})
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
