"""A codec that raises, or returns what are no events: its sender gets 500 (503 if memory ran
short) and keeps the event; nobody else notices."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_testing import GatewayProcess, Subscriber

from tests import web

pytestmark = [pytest.mark.spec("SAFE-26")]

MODULE = """
from gateway_core.contract.component import Component, Config
from gateway_core.contract.event import Event
from gateway_core.contract.hookspecs import hookimpl


class Panic(Exception):
    def __str__(self):
        raise TypeError("no text")


class Codec:
    def decode(self, message):
        what = (message.body or b"").decode()
        if what == "raise":
            raise KeyError("a secret of the body")
        if what == "panic":
            raise Panic
        if what == "memory":
            raise MemoryError
        if what == "system":
            raise SystemError("error return without exception set")
        if what == "deep":
            return self.decode(message)
        if what == "nothing":
            return None
        if what == "junk":
            return [1, "two"]
        return [Event({"specversion": "1.0", "id": what, "source": "/s", "type": "t"}, b"")]

    def encode(self, event):
        raise RuntimeError("can't write")


@hookimpl
def gateway_codecs():
    return [Component("bad", "A test's.", Config, lambda config, context: Codec())]
"""
CONFIG = """
brokers:
  default:
    ingress:
      - http: {listen: "127.0.0.1:0", codec: bad}
triggers:
  good: {subscriber: "URL"}
  bad: {subscriber: {http: {url: "URL", codec: bad}}, dead_letter: {file: {path: letters.jsonl}}}
"""


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[tuple[GatewayProcess, Subscriber]]:
    info = tmp_path / "site" / "tidegate_bad-0.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tidegate-bad\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text("[tidegate]\nbad = tidegate_bad\n")
    (tmp_path / "site" / "tidegate_bad.py").write_text(MODULE)
    with Subscriber() as subscriber:
        config = CONFIG.replace("URL", subscriber.url)
        with GatewayProcess(config, tmp_path, {"PYTHONPATH": str(tmp_path / "site")}) as gateway:
            yield gateway, subscriber


@pytest.mark.usefixtures("processes")
def test_each_fault_is_its_senders_alone(gateway: tuple[GatewayProcess, Subscriber]) -> None:
    process, subscriber = gateway
    with web.client(verify=False) as client:
        for what in ("raise", "panic", "deep", "nothing", "junk"):
            answer = client.post(process.ingress(), content=what)
            assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json"), what
            assert "a secret of the body" not in answer.text
            assert client.post(process.ingress(), content=f"after-{what}").status_code == 202
        for what in ("memory", "system"):
            short = client.post(process.ingress(), content=what)  # it may go well later: the sender keeps trying
            assert (short.status_code, short.headers["retry-after"]) == (503, "1")
    process.wait_until(lambda: len(subscriber.requests) == 5, 60, "the good events")
    process.wait_until(
        lambda: process.trigger("bad")["dead_lettered_by_stage"]["encode"] == 5, 20, "the letters of the other trigger"
    )
    told = [line for line in process.log().splitlines() if "unexpected error while taking an event" in line]
    assert any("KeyError at tidegate_bad.py" in line for line in told), "whose fault it is"
    assert "a secret of the body" not in process.log()
    assert process.stop() == 0
