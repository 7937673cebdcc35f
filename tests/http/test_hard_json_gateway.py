"""Hard JSON through a running gateway: posted in every mode, stored in the log, written to a file, and posted again
from its lines."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway_cloudevents import event_json

from gateway_core.config.registry import Registry
from gateway_core.contract.configs import load_all
from gateway_core.contract.settings import Settings
from gateway_core.runtime.gateway import Gateway
from tests import web
from tests.hard_json import JSON, NO_JSON
from tests.in_process import started

pytestmark = [pytest.mark.anyio, pytest.mark.spec("SAFE-106", "SAFE-109", "BR-16")]

ONE = {"content-type": "application/cloudevents+json"}
MANY = {"content-type": "application/cloudevents-batch+json"}
ONE_LINE = bytes.maketrans(b"\r\n", b"  ")


@pytest.fixture
def anyio_backend() -> Any:
    return "asyncio", {"use_uvloop": True}


def head(number: int) -> dict[str, str]:
    return {"specversion": "1.0", "id": str(number), "source": "/s", "type": "t", "datacontenttype": "application/json"}


def structured(number: int, data: bytes) -> bytes:
    return json.dumps(head(number)).encode()[:-1] + b',"data":%b}' % data


async def lines(file: Path, count: int) -> list[bytes]:
    with anyio.fail_after(60):
        while not file.exists() or file.read_bytes().count(b"\n") < count:  # noqa: ASYNC110 the sink has a thread
            await anyio.sleep(0.01)
    return file.read_bytes().splitlines()


@pytest.mark.slow
async def test_every_text_arrives_as_it_came_and_comes_back_from_its_line(tmp_path: Path) -> None:
    file, config_file = tmp_path / "events.jsonl", tmp_path / "tidegate.yaml"
    config_file.write_text(f"""
brokers: {{default: {{ingress: [http: {{listen: "127.0.0.1:0"}}]}}}}
triggers: {{t: {{subscriber: {{file: {{path: "{file}", fsync: false}}}}}}}}
""")
    registry = Registry.installed()
    gateway = Gateway(
        load_all([config_file], registry, {}).config, Settings(data_dir=tmp_path / "data", admin="off"), registry
    )
    texts = dict(enumerate(JSON.values()))
    async with started(gateway), web.async_client(verify=False, timeout=60) as client:
        url = gateway.ingress["default"][0]

        async def post(body: bytes, headers: dict[str, str]) -> int:
            return (await client.post(url, content=body, headers=headers)).status_code

        for n, text in texts.items():
            in_headers = {f"ce-{name}": value for name, value in head(n).items() if name != "datacontenttype"}
            assert await post(structured(n, text), ONE) == 202
            assert await post(text, {**in_headers, "content-type": "application/json"}) == 202
        assert await post(b"[%b]" % b",".join(structured(n, text) for n, text in texts.items()), MANY) == 202
        written = await lines(file, 3 * len(texts))
        for text in NO_JSON.values():
            assert await post(structured(0, text), ONE) == 400
        for start in range(0, len(written), 50):
            assert await post(b"[%b]" % b",".join(written[start : start + 50]), MANY) == 202
        again = await lines(file, 6 * len(texts))
    check(again, texts, lambda text: {text, text.translate(ONE_LINE)})


def check(found: list[bytes], texts: dict[int, bytes], allowed: Callable[[bytes], set[bytes]]) -> None:
    counts = dict.fromkeys(texts, 0)
    for line in found:
        event = event_json.load(line)
        number = int(event.attributes["id"])
        assert event.attributes == head(number)
        assert event.data in allowed(texts[number])
        counts[number] += 1
    assert set(counts.values()) == {6}
