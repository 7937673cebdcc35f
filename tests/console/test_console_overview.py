"""The overview: what is wrong, the topology with its numbers, and the ways from it; with one trigger and with 200."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests import web
from tests.console.axe import violations
from tests.console.lab import NARROW, Lab, lab, opened

pytestmark = pytest.mark.spec("CO-10")

ONE = """
brokers:
  default: {{ingress: [{{http: {{listen: "127.0.0.1:0"}}}}]}}
triggers:
  billing:
    broker: default
    delivery: {{retry: 0}}
    subscriber: {{http: {{url: "{bad}"}}}}
"""
HOSTILE = '<img src=x onerror=\\"document.title=1\\">\u202e'


def many() -> str:
    """200 triggers at three brokers, one of which fails and one of which has a hostile filter."""
    lines = ["brokers:"]
    lines += [
        f'  {name}: {{{{ingress: [{{{{http: {{{{listen: "127.0.0.1:0"}}}}}}}}]}}}}' for name in ("a", "b", "default")
    ]
    lines += ["triggers:"]
    for i in range(200):
        broker, subscriber = ("a", "b", "default")[i % 3], "{good}" if i != 5 else "{bad}"
        wanted = "order.created" if i in (2, 5) else f"t{i}" if i != 8 else HOSTILE
        lines += [
            f'  trigger-{i}: {{{{broker: {broker}, filters: [{{{{exact: {{{{type: "{wanted}"}}}}}}}}], '
            f'delivery: {{{{retry: 0}}}}, subscriber: "{subscriber}x/{i}"}}}}'
        ]
    return "\n".join(lines)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, processes: None) -> Iterator[Lab]:
    """A gateway with one trigger."""
    with lab(tmp_path_factory.mktemp("one"), ONE) as found:
        yield found


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory, processes: None) -> Iterator[Lab]:
    """A gateway with 200 triggers."""
    with lab(tmp_path_factory.mktemp("many"), many()) as found:
        yield found


def places(page: Page) -> object:
    """Where everything of the drawing and around it is."""
    return page.evaluate(
        "() => [...document.querySelectorAll('section, form, figure, svg a, table')].map(e => {"
        "const r = e.getBoundingClientRect(); return [r.x, r.y + scrollY, r.width, r.height].map(Math.round) })"
    )


def test_what_fails_comes_first_and_recovers_in_place(page: Page, shared: Lab) -> None:
    page.goto(shared.url)
    wrong, node = page.get_by_label("Problems"), page.get_by_label("Topology").get_by_role("link", name="billing")
    expect(wrong).to_contain_text("No problems")
    expect(page.get_by_role("status")).to_contain_text("Live")
    before = places(page)
    shared.send(*({"id": f"bad-{i}"} for i in range(30)))
    expect(wrong).to_contain_text("503")
    expect(node).to_contain_text("503")
    expect(page.get_by_role("row", name="billing")).to_contain_text("failing")
    assert places(page) == before
    assert violations(page) == []
    wrong.get_by_role("link", name="billing").click()
    expect(page.get_by_role("heading", name="billing", level=1)).to_be_visible()
    page.go_back()
    shared.bad.answer = 202
    shared.send({"id": "well"})
    expect(wrong).to_contain_text("No problems")
    expect(node).to_contain_text("ready")


def test_everything_leads_to_its_page_also_by_keyboard(page: Page, shared: Lab) -> None:
    page.goto(shared.url)
    drawn = page.get_by_label("Topology")
    trigger = drawn.get_by_role("link", name="trigger billing")
    trigger.focus()
    expect(trigger).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url("**/console/triggers/billing")
    page.goto(shared.url)
    drawn.get_by_role("link", name="broker default").first.click()
    expect(page.get_by_role("heading", name="Broker default")).to_be_visible()
    expect(page.get_by_text("Matched no trigger")).to_be_visible()
    assert violations(page) == []


@pytest.mark.spec("CO-11")
@pytest.mark.area(name="console")
def test_200_triggers_are_grouped_searched_and_small(browser: Browser, crowd: Lab) -> None:
    with opened(browser, crowd) as page:
        answer = page.goto(crowd.url)
        assert answer is not None
        assert len(answer.body()) < 45_000
        drawn = page.get_by_label("Topology")
        expect(drawn.get_by_role("link")).to_have_count(15)
        for _ in range(3):
            crowd.send(*({"id": f"x{i}"} for i in range(10)))
        group = drawn.get_by_role("link", name="triggers of default")
        expect(group).to_contain_text("1 failing")
        wrong = page.get_by_label("Problems")
        expect(wrong.get_by_role("link")).to_have_text("trigger-5")
        page.reload()
        expect(page.get_by_label("Triggers", exact=True).get_by_role("row").nth(1)).to_contain_text("trigger-5")
        assert violations(page) == []
        applied = crowd.post(
            "/api/v1/apply", json={"triggers": {"added": {"broker": "b", "subscriber": crowd.good.url}}}
        )
        assert applied.status_code == 200, applied.text
        expect(drawn.get_by_role("link", name="68 triggers of b")).to_be_visible()
        page.get_by_label("Search").fill("trigger-19")
        page.keyboard.press("Enter")
        expect(drawn.get_by_role("link", name="trigger trigger-19")).to_have_count(11)
        page.get_by_label("Search").fill("onerror")
        page.keyboard.press("Enter")
        expect(drawn.get_by_role("link", name="trigger trigger-8:")).to_contain_text("<img src=x onerror=")
        assert page.title() == "Overview · Tidegate"
        page.get_by_role("link", name="Show all").click()
        group.click()
        expect(page.get_by_label("Triggers", exact=True).get_by_role("row")).to_have_count(67)
        expect(wrong.get_by_role("link")).to_have_text("trigger-5")
        page.goto(f"{crowd.url}?broker=a")
        expect(wrong).to_contain_text("No problems")
        page.go_back()
        page.set_viewport_size(NARROW)  # type: ignore[arg-type]
        expect(drawn).to_be_hidden()
        expect(page.get_by_role("row", name="trigger-5", exact=False).first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.spec("CO-11")
def test_only_numbers_that_change_are_sent(crowd: Lab) -> None:
    path = crowd.gateway.admin("/console").text.partition('sse-connect="')[2].partition('"')[0].replace("&amp;", "&")
    headers, url = crowd.gateway.admin_headers, crowd.gateway.admin_url
    with web.stream("GET", url + path, headers=headers, verify=False, timeout=60) as stream:
        messages = (line.removeprefix("data: ") for line in stream.iter_lines() if line.startswith("data: {"))
        sizes = [len(next(messages)) for _ in range(4)]
    assert 2_000 < sizes[0] < 20_000
    assert min(sizes[1:]) < 500
