"""Quotas of an ingress in a whole gateway, over HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from anyio.abc import TaskGroup
from gateway_access.counts import LONGEST_NAME, MOST_NAMES, Counts, metrics
from gateway_admin.metrics import render

from gateway_core.config.registry import Registry
from gateway_core.contract.authenticator import Unauthenticated
from gateway_core.contract.clock import SystemClock
from gateway_core.contract.component import BuildContext, Component, Config
from gateway_core.contract.configs import load_all
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Message
from gateway_core.contract.hookspecs import hookimpl
from gateway_core.contract.identity import ANONYMOUS, Identity
from gateway_core.contract.settings import Settings
from gateway_core.contract.status import GatewayStatus
from gateway_core.runtime.gateway import Gateway
from tests import web
from tests.in_process import started
from tests.metrics.scrape import faults, parsed
from tests.twins import twins

pytestmark = pytest.mark.anyio

EVENT = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/shop", "ce-type": "order.placed"}
BATCH = {"content-type": "application/cloudevents-batch+json"}


class ByName:
    """Believes the header `x-name`, unless it is "wrong"."""

    challenge = "Name"

    def __init__(self, options: Config, context: BuildContext) -> None:
        pass

    async def start(self, tasks: TaskGroup) -> None: ...

    async def stop(self) -> None: ...

    def authenticate(self, request: Message) -> Identity | None:
        name = request.header(b"x-name")
        if name == b"wrong":
            raise Unauthenticated("no such name")
        return Identity(name.decode(), "by_name", "user") if name else None


class Mine:
    @hookimpl
    def gateway_authenticators(self) -> list[Component]:
        return [Component("by_name", "Believes a header.", Config, ByName)]


class ShiftedClock(SystemClock):
    """The machine's clock, which a test can put forward."""

    ahead_s = 0.0

    def __init__(self) -> None:
        self.monotonic = lambda: SystemClock.monotonic() + self.ahead_s  # type: ignore[method-assign]


class Running:
    def __init__(self, gateway: Gateway, client: httpx.AsyncClient, clock: ShiftedClock) -> None:
        self.gateway = gateway
        self.client = client
        self.clock = clock

    async def post(self, name: str = "", body: bytes = b"{}", **headers: str) -> httpx.Response:
        known = {"x-name": name} if name else {}
        return await self.client.post("", content=body, headers={**EVENT, **known, **headers})

    async def batch(self, count: int, name: str = "a", data: str = "") -> httpx.Response:
        one = {"specversion": "1.0", "source": "/s", "type": "t", "data": data}
        content = json.dumps([{**one, "id": str(number)} for number in range(count)])
        return await self.client.post("", content=content, headers={**BATCH, "x-name": name})

    def metrics(self) -> str:
        measured = self.gateway.status().measured
        return render(GatewayStatus.read({"version": "1", "measured": measured}), metrics("http"))

    @property
    def accepted(self) -> int:
        return self.gateway.status().brokers[0].accepted


@pytest.fixture(params=twins("native", "hypercorn"))
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def anyio_backend() -> Any:
    return "asyncio", {"use_uvloop": True}


@asynccontextmanager
async def running(
    folder: Path, quota: str, engine: str = "native", more: str = "anonymous: true"
) -> AsyncIterator[Running]:
    registry = Registry.installed()
    registry.add("mine", Mine())
    options = f"server: {engine}, listen: '127.0.0.1:0', authenticate: [by_name], {more}, quota: {{{quota}}}"
    file = folder / "tidegate.yaml"
    file.write_text(f"brokers: {{default: {{ingress: [{{http: {{{options}}}}}]}}}}")
    config = load_all([file], registry, {}).config
    clock = ShiftedClock()
    gateway = Gateway(config, Settings(data_dir=folder / "data", admin="off"), registry, clock)
    async with started(gateway):
        url = gateway.ingress["default"][0]
        async with web.async_client(base_url=url, verify=False, timeout=60) as client:
            yield Running(gateway, client, clock)


@pytest.mark.spec("LI-01", "LI-02", "LI-06")
async def test_a_sender_that_waits_as_told_gets_in(tmp_path: Path, engine: str) -> None:
    async with running(tmp_path, "per_identity: {requests_per_s: 0.01}, overrides: [{from: [vip]}]", engine) as to:
        assert (await to.post("a")).status_code == 202
        refused = await to.post("a")
        assert refused.status_code == 429
        assert refused.headers["content-type"] == "application/problem+json"
        assert refused.json()["detail"] == "The quota of 0.01 requests a second is used up."
        assert [(await to.post(name)).status_code for name in ("b", "", "", "vip", "vip")] == [202, 202, 429, 202, 202]
        assert to.accepted == 5
        to.clock.ahead_s += int(refused.headers["retry-after"])
        assert (await to.post("a")).status_code == 202
        text = to.metrics()
        assert list(faults(text)) == []
        found = parsed(text)
        where = {"broker": "default", "place": "ingress"}
        assert found("tidegate_http_denied_total", status="429", **where) == 2
        assert found("tidegate_http_denied_by_sender_total", sender="a (by_name)", **where) == 1
        assert found("tidegate_http_denied_by_sender_total", sender="anonymous", **where) == 1


@pytest.mark.spec("LI-02", "LI-03")
async def test_a_batch_comes_in_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    quota = "per_identity: {events_per_s: 0.02, burst_s: 500, max_batch: 20, max_event_bytes: 100}"
    async with running(tmp_path, quota) as to:
        assert [(await to.batch(count)).status_code for count in (6, 5, 4, 1)] == [202, 429, 202, 429]
        assert to.accepted == 10
        too_many = await to.batch(11)
        assert (too_many.status_code, too_many.json()["detail"]) == (
            413,
            "The request has 11 events; 10 may come at once.",
        )
        assert (await to.batch(2, "b", data="x" * 100)).status_code == 413
        assert to.accepted == 10
        assert (await to.batch(0, "c")).status_code == 202


@pytest.mark.spec("LI-02", "LI-03")
async def test_bytes_are_counted_before_a_body_is_decoded(tmp_path: Path) -> None:
    quota = "per_identity: {bytes_per_s: 1, burst_s: 1000}, total: {bytes_per_s: 1, burst_s: 1200}"
    async with running(tmp_path, quota) as to:
        assert (await to.post("a", b"x" * 1001)).status_code == 413
        assert (await to.post("a", b"x" * 900)).status_code == 202
        refused = await to.post("a", b"no gzip" * 100, **{"content-encoding": "gzip"})
        assert refused.status_code == 429
        assert 500 <= int(refused.headers["retry-after"]) <= 601
        assert (await to.post("b", b"x" * 900)).status_code == 429  # the total
        assert (await to.post("b", b"x" * 200)).status_code == 202


@pytest.mark.spec("LI-05", "LI-06")
async def test_guessing_is_slow(tmp_path: Path, engine: str) -> None:
    async with running(tmp_path, "failures_per_minute: 0.5", engine) as to:
        assert (await to.post("a")).status_code == 202
        assert (await to.post("wrong")).status_code == 401
        refused = [await to.post(name) for name in ("wrong", "a", "")]
        assert [answer.status_code for answer in refused] == [429, 429, 429]
        assert {answer.json()["detail"] for answer in refused} == {
            "Too many attempts with no or wrong credentials from this address."
        }
        to.clock.ahead_s += int(refused[0].headers["retry-after"])
        assert (await to.post("a")).status_code == 202
        found = parsed(to.metrics())
        assert found("tidegate_http_denied_total", status="401") == 1
        assert found("tidegate_http_denied_by_sender_total", sender="(unknown)") == 4


@pytest.mark.spec("WH-03", "WH-04", "WH-05")
async def test_permission_is_no_authentication(tmp_path: Path, engine: str) -> None:
    """Whoever has permission must prove who it is all the same, also for Event Grid's validation event."""
    webhook = 'anonymous: false, webhook: {origins: ["*.azure.net"], event_grid: true}'
    code = "512d38b6-c7b8-40c8-89fe-f46f9e9622b6"
    kind = "Microsoft.EventGrid.SubscriptionValidationEvent"
    validation = json.dumps([{"id": "1", "eventType": kind, "data": {"validationCode": code}}]).encode()
    origin = {"WebHook-Request-Origin": "eventgrid.azure.net"}
    async with running(tmp_path, "", engine, webhook) as to:
        asked = await to.client.options("", headers=origin)
        assert asked.headers["webhook-allowed-origin"] == "eventgrid.azure.net"
        headers = {**origin, "aeg-event-type": "SubscriptionValidation", "content-type": "application/json"}
        refused = await to.client.post("", content=validation, headers=headers)
        assert (refused.status_code, code in refused.text) == (401, False)
        answer = await to.client.post("", content=validation, headers={**headers, "x-name": "azure"})
        assert (answer.status_code, answer.json()) == (200, {"validationResponse": code})
        assert (await to.post("", b"{}", **origin)).status_code == 401
        assert (await to.post("azure")).status_code == 403
        assert (await to.post("azure", b"{}", **origin)).status_code == 202
        assert to.accepted == 1


@pytest.mark.spec("LI-06")
def test_senders_in_metrics_are_few() -> None:
    counts = Counts()
    for number in range(3 * MOST_NAMES):
        counts.refused(Identity(f"key {number}", "api_key"), Refused("no", status=403))
    counts.refused(Identity("key 1", "api_key"), Refused("no", status=403))
    counts.refused(None, Refused("no", status=401))
    by_status, by_sender = counts.metrics("http").values()
    assert by_status == {"403": 3 * MOST_NAMES + 1, "401": 1}
    assert len(by_sender) == MOST_NAMES + 2
    assert by_sender["key 1 (api_key)"] == 2
    assert by_sender["(others)"] == 2 * MOST_NAMES
    assert by_sender["(unknown)"] == 1  # however many names came before


@pytest.mark.spec("LI-06")
def test_a_sender_in_metrics_is_nobody_else() -> None:
    counts = Counts()
    senders = [*(Identity("anna", name) for name in ("oidc", "door")), Identity("(unknown)", "door"), ANONYMOUS]
    for who in (None, *senders, *(Identity("x" * 1000 + end, "door") for end in "ab")):
        counts.refused(who, Refused("no", status=403))
    _, by_sender = counts.metrics("http").values()
    long = f"{'x' * LONGEST_NAME} (door)"
    names = ("(unknown)", "anna (oidc)", "anna (door)", "(unknown) (door)", "anonymous")
    assert by_sender == {**dict.fromkeys(names, 1), long: 2}
