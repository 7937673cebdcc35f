"""The pictures of the console in the documentation: `make screenshots` takes all of them again, with flights as the
demo has them. With names of pictures only these are taken.

They are renewed on purpose and compared with nothing: times and rates in them differ from run to run.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, chdir, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from gateway_console.page import NAVIGATION
from gateway_demo.flights import FlightEvent, flight_events
from gateway_demo.processes import Gateway, Subscriber
from gateway_demo.run import remaining
from gateway_demo.sender import Sender
from gateway_demo.subscriber import verdict
from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright
from ruamel.yaml import YAML

from tests.console import browser as browsers
from tests.repeated import repeated

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "images"
SIZE = {"width": 1280, "height": 840}
COLOURS = 96
FLIGHTS, FEW = 12_000, 300
_SETTLE_S = 3.0
"""Rates need a few samples, one each second."""


@dataclass
class Lab:
    """The gateway of the demo, with flights in it."""

    url: str
    folder: Path

    def letter(self) -> dict[str, str]:
        """The attributes of an event in the dead letter: one that was tried again and again."""
        lines = (self.folder / "demo-out" / "undelivered.jsonl").read_text().splitlines()
        found: list[dict[str, str]] = [json.loads(line)["event"] for line in lines]
        return next((event for event in found if verdict(event["id"], 1_000) == 503), found[0])


Show = Callable[[Page, Lab], None]
"""Brings a page to what its picture shows."""


def name_of(path: str) -> str:
    """The file of a page's picture."""
    return f"console-{path.strip('/').replace('/', '-') or 'overview'}.png"


def _plain(path: str) -> Show:
    def show(page: Page, lab: Lab) -> None:
        page.goto(f"{lab.url}{path}")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        time.sleep(_SETTLE_S)

    return show


def _live(page: Page, lab: Lab) -> None:
    page.goto(f"{lab.url}/live?{urlencode({'filter': 'type=flight.departed.late'})}")
    expect(page.locator("#tap tr")).not_to_have_count(0)
    time.sleep(_SETTLE_S)
    page.get_by_role("button", name="Pause").click()


def _event(page: Page, lab: Lab) -> None:
    letter = lab.letter()
    page.goto(f"{lab.url}/events?{urlencode({'id': letter['id'], 'source': letter['source']})}")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    time.sleep(_SETTLE_S)


def _playground(page: Page, lab: Lab) -> None:
    page.goto(f"{lab.url}/playground")
    event = {
        "specversion": "1.0",
        "id": "1",
        "source": "/airport/JFK",
        "type": "flight.departed.late",
        "data": {"carrier": "B6", "dep_delay": 75},
    }
    page.get_by_label("Event").fill(json.dumps(event, indent=2))
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_text("would get it")).to_be_visible()


def _letter(page: Page, lab: Lab) -> None:
    page.goto(f"{lab.url}/dead-letters")
    page.get_by_role("link", name=lab.letter()["id"]).first.click()
    expect(page.get_by_role("heading", name="Event")).to_be_visible()


def _table(page: Page, lab: Lab) -> None:
    page.goto(f"{lab.url}/tables/table")
    time.sleep(2 * _SETTLE_S)  # some batches


def _type(page: Page, lab: Lab) -> None:
    page.goto(f"{lab.url}/catalogue")
    page.get_by_role("link", name="flight.departed.late").first.click()
    expect(page.get_by_role("heading", name="flight.departed.late")).to_be_visible()
    time.sleep(_SETTLE_S)


_SPECIAL: dict[str, Show] = {
    "/live": _live,
    "/playground": _playground,
    "/events": _plain("/events?type=flight.cancelled"),
}
_DETAILS: dict[str, tuple[str, Show]] = {
    "/events": ("/event", _event),
    "/dead-letters": ("/dead-letter", _letter),
    "/triggers": ("/trigger", _plain("/triggers/late")),
    "/tables": ("/table", _table),
    "/catalogue": ("/type", _type),
}
"""A page that the one in the navigation leads to."""


def pictures() -> dict[str, Show]:
    """By file name: how to get to what a picture shows. One for each page of the navigation, and some details."""
    shown: dict[str, Show] = {}
    for path in (entry.path for entry in NAVIGATION):
        shown[name_of(path)] = _SPECIAL.get(path) or _plain(path)
        if path in _DETAILS:
            name, show = _DETAILS[path]
            shown[name_of(name)] = show
    return shown


@contextmanager
def lab(folder: Path, quick: bool) -> Iterator[Lab]:
    """The demo's config, subscriber and flights, with more of them coming. `quick`: few, and without Spark."""
    yaml = YAML()
    document = yaml.load(ROOT / "configs" / "demo.yaml")
    del document["brokers"]["default"]["deduplicate"]  # it sends the same flights again and again
    if quick:
        del document["triggers"]["table"]
    yaml.dump(document, folder / "demo.yaml")
    with ExitStack() as stack:
        stack.enter_context(chdir(folder))  # so that pages show short paths, and none of this machine
        subscriber = stack.enter_context(Subscriber(folder / "subscriber.json"))
        env = {"DEMO_LISTEN": "127.0.0.1:0", "DEMO_SUBSCRIBER": subscriber.url, "DEMO_OUT": "demo-out"}
        gateway = stack.enter_context(Gateway(Path("demo.yaml"), folder / "data", folder / "gateway.log", env))
        gateway.wait_ready()
        events = list(flight_events(2 * (FEW if quick else FLIGHTS)))
        asyncio.run(Sender(gateway.ingress).send(iter(events[::2])))
        _until(lambda: remaining(gateway.status()) == 0)
        stack.enter_context(_more(gateway.ingress, events[1::2]))
        yield Lab(gateway.console(), folder)


def _until(condition: Callable[[], bool], limit_s: float = 300) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("the gateway is not ready for pictures")
        time.sleep(0.2)


def _more(url: str, events: list[FlightEvent]) -> AbstractContextManager[None]:
    """Sends some more flights all the time, so that rates are not zero."""
    sent = count(0, 30)

    def send() -> None:
        first = next(sent) % len(events)
        asyncio.run(Sender(url).send(iter(events[first : first + 30])))

    return repeated(send, 0.25)


def take(names: list[str], out: Path, *, quick: bool) -> None:
    """Takes these pictures. Raises `KeyError` for a name that there is not."""
    wanted, out = {name: pictures()[name] for name in names}, out.absolute()
    found = browsers.find()
    with (
        tempfile.TemporaryDirectory(prefix="demo-") as folder,
        lab(Path(folder), quick) as made,
        sync_playwright() as playwright,
        playwright.chromium.launch(
            executable_path=found.program, env=dict(found.env) or None, args=["--no-sandbox", "--disable-gpu"]
        ) as browser,
    ):
        page = browser.new_page(viewport=SIZE, color_scheme="light", reduced_motion="reduce")  # type: ignore[arg-type]
        page.set_default_timeout(60_000)
        page.goto(made.url)
        made.url = page.url.rstrip("/")
        out.mkdir(parents=True, exist_ok=True)
        for name, show in wanted.items():
            show(page, made)
            page.evaluate("window.scrollTo(0, 0)")
            (out / name).write_bytes(_small(page.screenshot(clip=_full(page))))
            print(f"{name}: {(out / name).stat().st_size // 1000} kB")


def _full(page: Page) -> Any:
    """The part of the window that has something in it: its whole width, without the empty space below."""
    end = page.evaluate(
        "Math.max(...[...document.querySelectorAll('main > *, nav > ul')].map(e => e.getBoundingClientRect().bottom))"
    )
    return {"x": 0, "y": 0, "width": SIZE["width"], "height": min(SIZE["height"], round(end) + 24)}


def _small(png: bytes) -> bytes:
    """The same picture with few colours: a third of the size."""
    made = io.BytesIO()
    with Image.open(io.BytesIO(png)) as picture:
        few = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
        few.save(made, "PNG", optimize=True)
    return made.getvalue()


def main(arguments: list[str]) -> int:
    """The command; returns its exit code."""
    known = pictures()
    parser = argparse.ArgumentParser(prog="screenshots", description="Takes the documentation's pictures again.")
    parser.add_argument("pictures", nargs="*", metavar="PICTURE", help=f"such as {next(iter(known))}; default: all")
    parser.add_argument("--out", type=Path, default=FOLDER, help="where they go")
    parser.add_argument("--quick", action="store_true", help="few flights, and no table: to try the command")
    asked = parser.parse_args(arguments)
    if unknown := [name for name in asked.pictures if name not in known]:
        parser.error(f"no picture {', '.join(unknown)}; there are {', '.join(known)}")
    take(asked.pictures or list(known), asked.out, quick=asked.quick)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
