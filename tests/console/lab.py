"""A gateway with a console, what it delivers to, and pages of it in a browser."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from gateway_testing.process import GatewayProcess
from gateway_testing.subscriber import Subscriber
from playwright.sync_api import Browser, BrowserContext, Page

from tests import web

OPENED = {"sec-fetch-site": "none"}
"""What a browser says of an address that its user opened, and that no page led to."""
WIDE = {"width": 1280, "height": 800}
NARROW = {"width": 390, "height": 844}

CONFIG = """
brokers:
  default:
    ingress: [{{http: {{listen: "127.0.0.1:0"}}}}]
triggers:
  orders:
    broker: default
    filters: [{{exact: {{type: order.created}}}}]
    subscriber: {{http: {{url: "{good}"}}}}
  billing:
    broker: default
    filters: [{{prefix: {{type: order.}}}}]
    delivery: {{retry: 0}}
    subscriber: {{http: {{url: "{bad}"}}}}
"""
"""A trigger whose subscriber takes events, and one whose subscriber refuses them."""


TABLE = """
  lake:
    broker: default
    start: earliest
    subscriber: {{spark: {{path: lake, runs: submitted}}}}
"""
"""A trigger whose query runs elsewhere."""


class Lab:
    """A running gateway with a fixed address of its admin API, so that a page finds it again after a restart."""

    def __init__(self, gateway: GatewayProcess, good: Subscriber, bad: Subscriber) -> None:
        self.gateway = gateway
        self.good = good
        self.bad = bad

    @property
    def url(self) -> str:
        """The address of the console."""
        return f"{self.gateway.admin_url}/console"

    def send(self, *events: dict[str, Any], broker: str = "default") -> None:
        """Sends events; what they lack is filled in."""
        made = [{"specversion": "1.0", "source": "/tests", "type": "order.created", **event} for event in events]
        media = {"content-type": "application/cloudevents-batch+json"}
        web.post(self.gateway.ingress(broker), json=made, headers=media, verify=False).raise_for_status()

    def dead_letters(self) -> list[dict[str, Any]]:
        """All dead letters, as the admin API lists them."""
        items: list[dict[str, Any]] = self.gateway.admin("/api/v1/dead-letters").json()["items"]
        return items

    def down(self, *events: dict[str, Any]) -> None:
        """Sends events that end up as dead letters."""
        before = len(self.dead_letters())
        self.send(*events)
        self.gateway.wait_until(lambda: len(self.dead_letters()) == before + len(events), what="dead letters")

    def post(self, path: str, role: str = "admin", **more: Any) -> httpx.Response:
        """A POST to the admin API with this role."""
        url = self.gateway.admin_url + path
        return web.post(url, headers=self.headers(role), verify=False, timeout=30, **more)

    def link(self, role: str = "admin") -> str:
        """A link that logs in once."""
        answer = self.post("/api/v1/console/link", role).raise_for_status()
        return str(self.gateway.admin_url + answer.json()["path"])

    def headers(self, role: str) -> dict[str, str]:
        """The header of a request with this role; the gateway's own token for an admin."""
        return self.gateway.admin_headers if role == "admin" else {"authorization": f"Bearer {self.token(role)}"}

    def token(self, role: str) -> str:
        """A token of this role."""
        from gateway_api.tokens import derived, read_token

        return derived(read_token(self.gateway.data_dir), role, f"a-{role}")  # type: ignore[arg-type]


@contextmanager
def lab(folder: Path, config: str = CONFIG, flags: Sequence[str] = (), **addresses: str) -> Iterator[Lab]:
    """A lab with this config, in which `{good}` and `{bad}` are the addresses of subscribers. Both may change their
    answers: `lab.bad.answer = 202`."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with Subscriber(default=202) as good, Subscriber(default=503) as bad:
        text = config.format(good=good.url, bad=bad.url, **addresses)
        with GatewayProcess(text, folder, None, "--admin", f"127.0.0.1:{port}", *flags) as gateway:
            yield Lab(gateway, good, bad)


@contextmanager
def opened(browser: Browser, found: Lab, *, log_in: bool = True, role: str = "admin", **options: Any) -> Iterator[Page]:
    """A page of a new browser context, logged in with this role. It fails the test if the page's script does, or if the
    browser reports what the page must not do."""
    context: BrowserContext = browser.new_context(**{"viewport": WIDE, **options})
    context.set_default_timeout(60_000)
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if "Content Security" in message.text else None)
    try:
        if log_in:
            page.goto(found.link(role))
        yield page
        assert not faults, faults
    finally:
        context.close()
