"""The console of a gateway with many triggers: pages of the list, and pages that take a thread."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

import httpx
import pytest
from gateway_console.pages.config import MOST_SHOWN
from gateway_console.sampler import FEW
from gateway_testing import GatewayProcess

from tests import web

pytestmark = pytest.mark.usefixtures("processes")

NAMES = [f"t{number}" for number in range(450)]
CONFIG = 'brokers: {default: {ingress: [http: {listen: "127.0.0.1:0"}]}}\ntriggers:\n'
TRIGGER = '  %s: {filter: {type: %s}, subscriber: "http://127.0.0.1:9/"}\n'


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    assert len(NAMES) > max(FEW, MOST_SHOWN)
    text = CONFIG + "".join(TRIGGER % (name, name) for name in NAMES)
    with GatewayProcess(text, tmp_path_factory.mktemp("many")) as found:
        yield found


@pytest.fixture(scope="module")
def client(gateway: GatewayProcess) -> Iterator[httpx.Client]:
    with web.client(base_url=gateway.admin_url, headers=gateway.admin_headers, timeout=120) as found:
        yield found


def page(client: httpx.Client, path: str) -> str:
    return client.get(path).raise_for_status().text


def rows(text: str) -> list[str]:
    return re.findall(r'<th scope="row"><a href="/console/triggers/(t\d+)"', text)


def first_event(client: httpx.Client, text: str) -> str:
    """The first part that a live page gets."""
    (path,) = re.findall(r'sse-connect="([^"]+)"', text)
    with client.stream("GET", html.unescape(path)) as answer:
        found = ""
        for part in answer.iter_text():
            found += part
            if "\n\n" in found:
                break
        return found


def test_the_pages_of_the_list_have_every_trigger_once(client: httpx.Client) -> None:
    found, path = [], "/console/triggers"
    while path:
        text = page(client, path)
        found.append(rows(text))
        assert rows(first_event(client, text)) == found[-1]
        link = re.search(r'<a href="([^"]+)">Next page', text)
        path = f"/console/triggers{html.unescape(link[1])}" if link else ""
    assert [name for some in found for name in some] == sorted(NAMES)
    assert len(found) == 3


def test_a_search_looks_through_all_of_them(client: httpx.Client) -> None:
    assert rows(page(client, "/console/triggers?search=T449")) == ["t449"]


def test_the_page_of_a_trigger_shows_it(client: httpx.Client) -> None:
    text = page(client, "/console/triggers/t449")
    assert "t449" in text
    assert "t448" not in text


def test_the_overview_counts_them_all(client: httpx.Client) -> None:
    text = page(client, "/console")
    assert f"{len(NAMES)} triggers" in text
    assert "figures" in first_event(client, text)


def test_of_a_long_config_the_first_entries_are_shown_and_all_differences(
    gateway: GatewayProcess, client: httpx.Client
) -> None:
    text = page(client, "/console/config")
    assert "Of long sections you see the first entries" in text
    assert "They hold the config in force" in text
    assert (f"t{MOST_SHOWN - 1}:" in text, f"t{MOST_SHOWN}:" in text) == (True, False)
    before = gateway.config.read_text()
    try:
        gateway.config.write_text(before.replace("{type: t449}", "{type: another}"))
        text = page(client, "/console/config")
        while "another" not in text and "They hold" in text and gateway.status()["config"]["generation"] == 1:
            text = page(client, "/console/config")
        if gateway.status()["config"]["generation"] == 1:  # else a reload was faster
            assert "They differ from the config in force" in text
    finally:
        gateway.config.write_text(before)
