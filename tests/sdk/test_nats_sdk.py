"""The official Go SDK (`protocol/nats_jetstream`, `protocol/nats`) exchanges events with the NATS source and sink.

In binary mode it neither encodes nor decodes the values of headers (cloudevents/sdk-go issue 1334): what it writes is
read as long as it holds no percent sign or quotes, and what it reads is the encoded text.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import anyio
import anyio.to_thread
import nats
import pytest
from gateway_dev import servers
from gateway_testing.suites import Kit, MemoryIntake
from gateway_testing.suites.kit import until
from gateway_testing.suites.sink import attempt, running

from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Source
from tests.sdk.environments import go_sdk
from tests.sdk.test_sdks import CASES, Case, attributes_of, canonical, data_of

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.usefixtures("processes"),
    pytest.mark.xdist_group("sdk"),
    pytest.mark.timeout(900),
    pytest.mark.spec("NT-16"),
]


@pytest.fixture(autouse=True)
def built() -> None:
    """A test without the SDK is missing; raised in a task group that would not be seen."""
    go_sdk()


def cases(mode: str) -> dict[str, Case]:
    """The cases by event id; without those that the SDK can't write in this mode."""
    unable = {"percent sign and quotes"} if mode == "binary" else set()
    return {
        name: {**case, "attributes": {"id": name, "source": "/sdk", "type": "t", **case["attributes"]}}
        for name, case in CASES.items()
        if name not in unable
    }


async def go(*arguments: str, given: object = None) -> Any:
    def run() -> Any:
        done = subprocess.run(
            [str(go_sdk()), *arguments], input=json.dumps(given), capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["result"] if done.stdout else None

    return await anyio.to_thread.run_sync(run)


def event_of(case: Case) -> Event:
    attributes = {"specversion": "1.0", **case["attributes"]}
    if "bytes" in case:
        return Event(attributes, data_of(case, ""))  # type: ignore[arg-type]
    if "data" not in case:
        return Event(attributes)
    text = case["data"] if isinstance(case["data"], str) else json.dumps(case["data"])
    return Event(attributes, text.encode())


def same(read: Sequence[Case], wanted: dict[str, Case], decode: bool) -> None:
    assert sorted(one["attributes"]["id"] for one in read) == sorted(wanted)
    for one in read:
        given = wanted[unquote(one["attributes"]["id"])]
        own, type = given["attributes"], given["attributes"].get("datacontenttype", "")
        assert attributes_of(one, given, decode) == {name: canonical(name, value) for name, value in own.items()}
        have, want = data_of(one, type), data_of(given, type)
        assert (json.loads(str(have)) if type == "application/json" else have) == want, own["id"]


@pytest.mark.parametrize(
    ("transport", "mode"),  # the SDK's core NATS has structured mode only
    [
        ("jetstream", "binary"),
        pytest.param("jetstream", "structured", marks=pytest.mark.area(name="sdk")),
        pytest.param("nats", "structured", marks=pytest.mark.area(name="sdk")),
    ],
)
async def test_what_the_sdk_writes_is_read(
    nats_server: servers.Server, tmp_path: Path, transport: str, mode: str
) -> None:
    name, wanted, intake = f"go-{uuid4().hex[:8]}", cases(mode), MemoryIntake()
    core = {"jetstream": False} if transport == "nats" else {"stream": name, "create": {"subjects": f"{name}.>"}}
    options = {"servers": nats_server.url, "subject": f"{name}.in", **core}
    source: Source = Kit(tmp_path).source("nats", options)
    async with anyio.create_task_group() as tasks:
        await source.start(intake, tasks)
        address = f"{name}/{name}.in" if transport == "jetstream" else f"{name}.in"
        await go("send", transport, nats_server.url, address, mode, given=list(wanted.values()))
        await until(lambda: len(intake.safe) == len(wanted), "the events")
        await source.stop()
        tasks.cancel_scope.cancel()
    assert intake.letters == []
    same([_case(event) for event in intake.safe], wanted, False)


@pytest.mark.parametrize("mode", ["binary", pytest.param("structured", marks=pytest.mark.area(name="sdk"))])
async def test_the_sdk_reads_what_is_written(nats_server: servers.Server, tmp_path: Path, mode: str) -> None:
    name, wanted = f"go-{uuid4().hex[:8]}", cases("")
    create = {"stream": name, "create": {"subjects": f"{name}.>"}, "codec": {"cloudevents": {"mode": mode}}}
    sink = Kit(tmp_path).sink("nats", {"servers": nats_server.url, "subject": f"{name}.out", **create})
    async with running(sink):
        for case in wanted.values():
            assert (await attempt(sink, event_of(case))).delivered
    read = await go("receive", "jetstream", nats_server.url, f"{name}/{name}.out", str(len(wanted)))
    same([_decoded(one) if mode == "binary" else one for one in read], wanted, False)


@pytest.mark.area(name="sdk")
async def test_the_sdk_hears_core_nats(nats_server: servers.Server, tmp_path: Path) -> None:
    name, wanted = f"go-{uuid4().hex[:8]}", cases("")
    sink = Kit(tmp_path).sink("nats", {"servers": nats_server.url, "subject": name, "jetstream": False})
    found: list[Any] = []
    async with running(sink), anyio.create_task_group() as tasks:

        async def receive() -> None:
            found.append(await go("receive", "nats", nats_server.url, name, str(len(wanted))))

        tasks.start_soon(receive)
        await _listened(nats_server.url, name)
        for case in wanted.values():
            assert (await attempt(sink, event_of(case))).delivered
    same(found[0], wanted, False)


async def _listened(url: str, subject: str) -> None:
    """Returns once somebody subscribes to the subject: a request without a subscriber is answered at once."""
    nc = await nats.connect(url)
    with anyio.fail_after(300):
        while True:
            try:
                await nc.request(subject, b'{"specversion":"1.0"}', timeout=0.2)
            except nats.errors.NoRespondersError:
                await asyncio.sleep(0.02)
            except nats.errors.TimeoutError:
                break
    await nc.close()


def _case(event: Event) -> Case:
    found: Case = {"attributes": event.attributes}
    return found if not event.data else {**found, "bytes": b64encode(event.data).decode()}


def _decoded(case: Case) -> Case:
    return {**case, "attributes": {name: unquote(str(value)) for name, value in case["attributes"].items()}}
