"""An ingress grants permission to send (CloudEvents HTTP webhooks 1.0.2 section 4), over HTTP."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from gateway_http.config import HttpSourceConfig
from gateway_http.webhook_config import HandshakeReceiverConfig
from gateway_http.webhook_receiver import WebhookReceiver
from gateway_testing import FakeClock

from gateway_core.contract.event import Event, Message
from tests import web
from tests.twins import twins

pytestmark = pytest.mark.anyio

EVENT = {"ce-id": "1", "ce-type": "t", "ce-specversion": "1.0", "ce-source": "/s"}
ORIGIN = "events.example.com"
ASK = "WebHook-Request-Origin"


@pytest.fixture(params=twins("native", "hypercorn"))
def server(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def anyio_backend() -> Any:
    return "asyncio", {"use_uvloop": True}


@pytest.mark.spec("WH-03")
@pytest.mark.parametrize("options", [{}, {"webhook": {"origins": ["other.example.com"]}}])
async def test_nobody_gets_permission_unasked(kit: Any, intake: Any, server: str, options: dict[str, Any]) -> None:
    async with kit.source(intake, server=server, **options) as source, web.async_client(verify=False) as client:
        response = await client.options(source.address, headers={ASK: ORIGIN, "WebHook-Request-Rate": "120"})
        assert (response.status_code, response.headers["allow"]) == (200, "POST, OPTIONS")
        assert not [name for name in response.headers if name.startswith("webhook")]


@pytest.mark.spec("WH-03")
async def test_the_handshake(kit: Any, intake: Any, server: str) -> None:
    webhook = {"origins": ["*.Example.com", "a.example"], "rate_per_minute": 120}
    async with (
        kit.source(intake, server=server, webhook=webhook) as source,
        web.async_client(verify=False) as client,
    ):
        asked = {ASK: ORIGIN, "WebHook-Request-Rate": "6000", "WebHook-Request-Callback": "https://127.0.0.1:1/x"}
        response = await client.options(source.address, headers=asked)
        assert response.status_code == 200
        assert response.headers["allow"] == "POST, OPTIONS"
        assert response.headers["webhook-allowed-origin"] == ORIGIN
        assert response.headers["webhook-allowed-rate"] == "120"
        posted = await client.post(source.address, headers={**EVENT, ASK: ORIGIN})
        assert posted.status_code == 202
    assert intake.ids() == ["1"]


@pytest.mark.spec("WH-04")
@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ([], "does not name the sender"),
        ([(ASK, "evil.example")], "has no permission"),
        ([(ASK, "example.com.evil.example")], "has no permission"),
        ([(ASK, "")], "has no permission"),
        ([(ASK, ORIGIN), (ASK, ORIGIN)], "has no permission"),
    ],
)
async def test_a_post_needs_a_permitted_origin(
    kit: Any, intake: Any, server: str, headers: list[tuple[str, str]], says: str
) -> None:
    webhook = {"origins": [ORIGIN]}
    async with (
        kit.source(intake, server=server, webhook=webhook) as source,
        web.async_client(verify=False) as client,
    ):
        response = await client.post(source.address, headers=[*EVENT.items(), *headers])
        assert response.status_code == 403
        assert says in response.json()["detail"]
        assert "evil" not in response.text
        coded = [*EVENT.items(), *headers, ("Content-Encoding", "gzip")]
        assert (await client.post(source.address, headers=coded)).status_code in (400, 403)
    assert intake.events == []
    assert {refused.status for refused in intake.refused} <= {400, 403}


@pytest.mark.spec("WH-04")
async def test_the_origin_may_be_optional(kit: Any, intake: Any) -> None:
    webhook = {"origins": [ORIGIN], "require_origin": False}
    async with kit.source(intake, webhook=webhook) as source, web.async_client(verify=False) as client:
        assert (await client.post(source.address, headers=EVENT)).status_code == 202
        assert (await client.post(source.address, headers={**EVENT, ASK: "evil.example"})).status_code == 403


@pytest.mark.spec("WH-04")
async def test_the_granted_rate_is_enforced(kit: Any, intake: Any, server: str) -> None:
    clock = FakeClock()
    webhook = {"origins": ["*"], "rate_per_minute": 3}
    async with (
        kit.source(intake, clock=clock, server=server, webhook=webhook) as source,
        web.async_client(verify=False) as client,
    ):

        async def post(origin: str = ORIGIN) -> httpx.Response:
            return await client.post(source.address, headers={**EVENT, ASK: origin})

        assert [(await post()).status_code for _ in range(4)] == [202, 202, 202, 429]
        refused = await post("EVENTS.example.com")
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "20")
        assert (await post("other.example.com")).status_code == 202
        clock.advance(20)
        assert [(await post()).status_code for _ in range(2)] == [202, 429]


@pytest.mark.parametrize(
    ("pattern", "permitted", "refused"),
    [
        ("*", ["a", "a.b", "eventgrid.azure.net"], ["", "*", "a b", "a..b", "a" * 64, "a." * 150, "-a", "é.example"]),
        ("a.example", ["a.example", "A.Example"], ["b.a.example", "a.example.", "xa.example", "a.exampl"]),
        ("*.a.example", ["b.a.example", "c.b.A.example"], ["a.example", "xa.example", ".a.example", "*.a.example"]),
    ],
)
def test_patterns(pattern: str, permitted: list[str], refused: list[str]) -> None:
    options = HandshakeReceiverConfig.model_validate({"origins": [pattern]})
    assert [o for o in permitted if not options.permits(o)] == []
    assert [o for o in refused if options.permits(o)] == []


# -- Azure Event Grid ---------------------------

VALIDATION = {
    "id": "2d1781af-3a4c-4d7c-bd0c-e34b19da4e66",
    "topic": "/subscriptions/xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx",
    "subject": "",
    "data": {
        "validationCode": "512d38b6-c7b8-40c8-89fe-f46f9e9622b6",
        "validationUrl": "https://rp-eastus2.eventgrid.azure.net:553/eventsubscriptions/x/validate?id=512d38b6&token=x",
    },
    "eventType": "Microsoft.EventGrid.SubscriptionValidationEvent",
    "eventTime": "2018-01-25T22:12:19.4556811Z",
    "metadataVersion": "1",
    "dataVersion": "1",
}
GRID = {"content-type": "application/json; charset=utf-8", "aeg-event-type": "SubscriptionValidation"}


@pytest.mark.spec("WH-05")
async def test_event_grids_validation(kit: Any, intake: Any, server: str) -> None:
    webhook = {"origins": ["*"], "require_origin": False, "event_grid": True}
    async with (
        kit.source(intake, server=server, webhook=webhook) as source,
        web.async_client(verify=False) as client,
    ):
        response = await client.post(source.address, headers=GRID, json=[VALIDATION])
        assert response.status_code == 200
        assert response.headers["content-type"] == "application/json"
        assert response.json() == {"validationResponse": "512d38b6-c7b8-40c8-89fe-f46f9e9622b6"}
        assert (await client.post(source.address, headers=EVENT)).status_code == 202
    assert intake.ids() == ["1"]


def with_code(code: Any) -> dict[str, Any]:
    return {**VALIDATION, "data": {"validationCode": code}}


@pytest.mark.spec("WH-05")
@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({}, [VALIDATION]),
        ({"aeg-event-type": "Notification"}, [VALIDATION]),
        (GRID, VALIDATION),
        (GRID, []),
        (GRID, [VALIDATION, VALIDATION]),
        (GRID, [{**VALIDATION, "eventType": "other"}]),
        (GRID, [{**VALIDATION, "data": None}]),
        (GRID, [{**VALIDATION, "topic": "x" * 20_000}]),
        (GRID, [with_code("<script>")]),
        (GRID, [with_code("x" * 600)]),
        (GRID, [with_code("")]),
        (GRID, [with_code(7)]),
        (GRID, b"{"),
        (GRID, b"[1]"),
    ],
)
def test_what_is_no_validation(headers: dict[str, str], body: Any) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    message = Message([(name.encode(), value.encode()) for name, value in headers.items()], data)
    options = {"origins": ["*"], "event_grid": True}
    receiver = WebhookReceiver(HandshakeReceiverConfig.model_validate(options), lambda: 0.0)
    assert receiver.validated(message) is None
    whole = Message([(b"aeg-event-type", b"SubscriptionValidation")], json.dumps([VALIDATION]).encode())
    assert receiver.validated(whole) is not None
    off = WebhookReceiver(HandshakeReceiverConfig.model_validate({"origins": ["*"]}), lambda: 0.0)
    assert off.validated(whole) is None


@pytest.mark.parametrize("origins", [[], ["a b"], ["*a.example"], ["*."], ["a.*.example"], ["https://a.example"]])
def test_wrong_origins(origins: list[str]) -> None:
    with pytest.raises(ValueError, match="origins"):
        HttpSourceConfig.model_validate({"webhook": {"origins": origins}})


# -- both sides ---------------------------


@pytest.mark.spec("WH-01", "WH-03")
async def test_a_sink_asks_an_ingress(kit: Any, intake: Any, server: str) -> None:
    webhook = {"origins": [ORIGIN], "rate_per_minute": 600_000}
    async with kit.source(intake, server=server, webhook=webhook) as source:
        async with kit.sink(source.address, webhook={"origin": "evil.example"}) as sink:
            outcome = await kit.send(sink)
            assert (outcome.delivered, outcome.reason[:21]) == (False, "no permission to send")
        async with kit.sink(source.address, webhook={"origin": ORIGIN}) as sink:
            for number in range(3):
                assert (await kit.send(sink, Event({"id": str(number), "type": "t"}, b"{}"))).delivered
    assert intake.ids() == ["0", "1", "2"]


@pytest.mark.spec("WH-03", "WH-04", "WH-05")
async def test_over_http2(kit: Any, intake: Any) -> None:
    webhook = {"origins": [ORIGIN], "event_grid": True}
    async with (
        kit.source(intake, server="hypercorn", webhook=webhook) as source,
        web.async_client(http1=False, http2=True, verify=False) as client,
    ):
        asked = await client.options(source.address, headers={ASK: ORIGIN})
        assert (asked.http_version, asked.headers["webhook-allowed-rate"]) == ("HTTP/2", "*")
        assert (await client.post(source.address, headers=EVENT)).status_code == 403
        assert (await client.post(source.address, headers={**EVENT, ASK: ORIGIN})).status_code == 202
        answer = await client.post(source.address, headers={**GRID, ASK: ORIGIN}, json=[VALIDATION])
        assert answer.json() == {"validationResponse": VALIDATION["data"]["validationCode"]}  # type: ignore[index]


@pytest.mark.spec("WH-04")
async def test_refusals_are_counted_and_in_the_audit_log(kit: Any, intake: Any, tmp_path: Any) -> None:
    async with (
        kit.source(intake, webhook={"origins": [ORIGIN]}) as source,
        web.async_client(verify=False) as client,
    ):
        assert (await client.post(source.address, headers=EVENT)).status_code == 403
        assert source.metrics()["tidegate_http_denied_total"] == {"403": 1}
    lines = [json.loads(line) for file in (tmp_path / "audit").iterdir() for line in file.read_text().splitlines()]
    (denied,) = [line for line in lines if line["result"] == "denied"]
    assert (denied["who"], denied["where"], denied["status"]) == ("anonymous", "127.0.0.1", 403)
