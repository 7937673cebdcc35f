"""The HTTP sink with `batch`: several events in one request, one response for all, and what a rejection does."""

from __future__ import annotations

import base64
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway_cloudevents import plugin as cloudevents_plugin
from gateway_http import plugin as http_plugin
from gateway_log import plugin as log_plugin
from gateway_testing import Received, Subscriber

from gateway_core.config.registry import Registry
from gateway_core.contract.clock import SystemClock
from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.event import Event
from gateway_core.contract.settings import Settings
from gateway_core.contract.status import TriggerStatus
from gateway_core.runtime.gateway import Gateway
from tests.delivery.gateway_rig import Parts, until
from tests.in_process import started

pytestmark = pytest.mark.anyio

BATCH = "application/cloudevents-batch+json; charset=utf-8"


def event(n: int, key: str = "", data: bytes = b'{"n":1}') -> Event:
    attributes = {
        "specversion": "1.0",
        "id": str(n),
        "source": "/t",
        "type": "t",
        "datacontenttype": "application/json",
    }
    return Event(attributes | ({"partitionkey": key} if key else {}), data)


def ids(request: Received) -> list[str]:
    assert request.headers["content-type"] == BATCH
    return [one["id"] for one in json.loads(request.body)]


@asynccontextmanager
async def gateway(
    parts: Parts, url: str, folder: Path, batch: dict[str, Any], delivery: dict[str, Any] | None = None, **sink: Any
) -> AsyncIterator[Callable[[], TriggerStatus]]:
    """A gateway with one trigger; yields what reads the trigger's status."""
    registry = Registry()
    for name, plugin in (("parts", parts), ("log", log_plugin), ("http", http_plugin), ("ce", cloudevents_plugin)):
        registry.add(name, plugin)
    config = {
        "brokers": {"default": {"ingress": ["tap"], "dead_letter": "letters"}},
        "triggers": {"t": {"subscriber": {"http": {"url": url, "batch": batch, **sink}}, "delivery": delivery or {}}},
    }
    made = Gateway(
        GatewayConfig.model_validate(config), Settings(data_dir=folder, admin="off"), registry, SystemClock()
    )
    async with started(made):
        yield lambda: made.status().triggers[0]


async def put(parts: Parts, *events: Event) -> None:
    answers = parts.tap.put(*events)
    await until(lambda: answers)
    assert answers == [None]


@pytest.mark.spec("BATCH-01")
async def test_events_go_out_together_and_one_response_settles_all(tmp_path: Path) -> None:
    parts = Parts()
    with Subscriber() as subscriber:
        async with gateway(parts, subscriber.url, tmp_path, {"max_events": 100, "wait": 10}) as status:
            await put(parts, *(event(n) for n in range(300)))
            await until(lambda: status().delivered == 300)
            assert (status().attempts, status().retried) == (300, 0)
    assert [len(ids(request)) for request in subscriber.requests] == [100, 100, 100]
    assert sorted(int(i) for request in subscriber.requests for i in ids(request)) == list(range(300))
    assert "prefer" not in subscriber.requests[0].headers
    assert json.loads(subscriber.requests[0].body)[0]["data"] == {"n": 1}


@pytest.mark.spec("BATCH-01")
async def test_a_batch_waits_no_longer_and_is_no_longer_than_it_may_be(tmp_path: Path) -> None:
    parts = Parts()
    with Subscriber() as subscriber:
        async with gateway(parts, subscriber.url, tmp_path, {"max_bytes": 2000, "wait": 0.01}) as status:
            await put(parts, *(event(n, data=b'"%s"' % (b"x" * 600)) for n in range(9)))
            await put(parts, event(9, data=b'"%s"' % (b"y" * 5000)))
            await until(lambda: status().delivered == 10)
    lengths = sorted(len(request.body) for request in subscriber.requests)
    assert lengths[-1] > 5000
    assert all(length <= 2000 for length in lengths[:-1])
    assert Counter(i for request in subscriber.requests for i in ids(request)) == {str(n): 1 for n in range(10)}


@pytest.mark.spec("BATCH-02")
async def test_a_rejected_batch_is_split_until_its_poison_stands_alone(tmp_path: Path) -> None:
    parts, poison = Parts(), {"17", "64"}

    def decide(request: Received) -> int:
        return 422 if poison & set(ids(request)) else 204

    with Subscriber(decide=decide) as subscriber:
        # without retries: a rejection that others share uses up none
        async with gateway(parts, subscriber.url, tmp_path, {"wait": 1}, {"retry": 0}) as status:
            await put(parts, *(event(n) for n in range(100)))
            await until(lambda: status().delivered == 98 and status().dead_lettered == 2)
            found = status()
    assert {e.attributes["id"] for e in parts.letters.sent} == poison
    requests = [ids(request) for request in subscriber.requests]
    taken = Counter(i for request in requests if not poison & set(request) for i in request)
    assert taken == {str(n): 1 for n in range(100) if str(n) not in poison}
    assert len(requests) <= 1 + 2 * 2 * 7  # both halves of each batch on the way to two events of a hundred
    assert found.attempts == sum(map(len, requests))
    for letter in parts.letters.sent:
        mine = [request for request in requests if letter.attributes["id"] in request]
        assert letter.attributes["tidegateattempts"] == len(mine)
        assert (letter.attributes["knativeerrorcode"], len(mine[-1])) == ("422", 1)


@pytest.mark.spec("BATCH-11")
async def test_an_event_that_comes_late_to_its_half_is_sent(tmp_path: Path) -> None:
    """A rate lets halves go out before all their events are there; so does a window that failures closed."""
    parts, taken = Parts(), Counter[str]()
    poison = {str(n) for n in range(0, 40, 7)}

    def decide(request: Received) -> int:
        if poison & set(ids(request)):
            return 422
        time.sleep(0.01)  # while events come to a batch that went out
        taken.update(ids(request))
        return 204

    with Subscriber(decide=decide) as subscriber:
        delivery = {"retry": 0, "rate_per_s": 100}
        async with gateway(parts, subscriber.url, tmp_path, {"max_events": 20, "wait": 0.003}, delivery) as status:
            await put(parts, *(event(n) for n in range(40)))
            await until(lambda: status().delivered + status().dead_lettered == 40)
    assert taken == {str(n): 1 for n in range(40) if str(n) not in poison}
    assert {e.attributes["id"] for e in parts.letters.sent} == poison
    assert all(letter.attributes["knativeerrorcode"] == "422" for letter in parts.letters.sent)


@pytest.mark.spec("BATCH-02")
@pytest.mark.parametrize("code", [401, 405, 415])
async def test_what_is_no_fault_of_an_event_splits_nothing(code: int, tmp_path: Path) -> None:
    parts = Parts()
    with Subscriber(default=code) as subscriber:
        async with gateway(parts, subscriber.url, tmp_path, {"max_events": 10, "wait": 10}) as status:
            await put(parts, *(event(n) for n in range(10)))
            await until(lambda: status().dead_lettered == 10)
    assert len(subscriber.requests) == 1


@pytest.mark.spec("BATCH-03")
async def test_each_event_is_retried_by_its_policy_if_a_batch_fails(tmp_path: Path) -> None:
    parts = Parts()
    delivery = {"retry": 2, "backoff_delay_s": 0.01}
    with Subscriber([503], default=204) as subscriber:
        async with gateway(parts, subscriber.url, tmp_path, {"max_events": 20, "wait": 0.05}, delivery) as status:
            await put(parts, *(event(n) for n in range(20)))
            await until(lambda: status().delivered == 20)
            assert (status().attempts, status().retried, status().dead_lettered) == (40, 20, 0)
    assert len(ids(subscriber.requests[0])) == 20


@pytest.mark.spec("BATCH-07")
async def test_one_event_that_makes_batches_fail_holds_no_others(tmp_path: Path) -> None:
    parts = Parts()

    def decide(request: Received) -> int:
        return 500 if "17" in ids(request) else 204

    with Subscriber(decide=decide) as subscriber:
        delivery = {"retry": 2, "backoff": "linear", "backoff_delay_s": 0.01}
        async with gateway(parts, subscriber.url, tmp_path, {"wait": 0.2}, delivery) as status:
            await put(parts, *(event(n) for n in range(100)))
            await until(lambda: status().delivered == 99 and status().dead_lettered == 1)
            found = status()
    (letter,) = parts.letters.sent
    requests = [ids(request) for request in subscriber.requests]
    mine = [request for request in requests if "17" in request]
    assert (letter.attributes["id"], len(mine[-1])) == ("17", 1)
    assert letter.attributes["tidegateattempts"] == len(mine)
    assert len(mine[0]) == 100
    assert found.attempts == sum(map(len, requests))
    taken = Counter(i for request in requests if "17" not in request for i in request)
    assert taken == {str(n): 1 for n in range(100) if n != 17}


@pytest.mark.spec("BATCH-07")
@pytest.mark.parametrize("answer", [503, 429, (503, {"retry-after": "0"}, b"")])
async def test_a_subscriber_that_is_too_busy_splits_nothing(answer: Any, tmp_path: Path) -> None:
    parts = Parts()
    delivery = {"retry": 3, "backoff_delay_s": 0.01}
    with Subscriber(default=answer) as subscriber:
        async with gateway(parts, subscriber.url, tmp_path, {"max_events": 20, "wait": 0.2}, delivery) as status:
            await put(parts, *(event(n) for n in range(20)))
            await until(lambda: status().dead_lettered == 20)
    assert {letter.attributes["tidegateattempts"] for letter in parts.letters.sent} == {4}


@pytest.mark.slow
@pytest.mark.spec("BATCH-03")
@pytest.mark.parametrize("code", [429, 503])
async def test_a_batch_waits_as_long_as_its_response_asks(code: int, tmp_path: Path) -> None:
    parts, free_at = Parts(), 0.0

    def decide(request: Received) -> int | tuple[int, dict[str, str], bytes]:
        nonlocal free_at
        now = time.monotonic()
        free_at = free_at or now + 0.9
        return (code, {"retry-after": "1"}, b"") if now < free_at else 204

    with Subscriber(decide=decide) as subscriber:
        # one retry: an event that comes back too early goes to the dead letter
        delivery = {"retry": 1, "backoff": "linear", "backoff_delay_s": 0.001}
        async with gateway(parts, subscriber.url, tmp_path, {"max_events": 20, "wait": 5}, delivery) as status:
            await put(parts, *(event(n) for n in range(20)))
            await until(lambda: status().delivered + status().dead_lettered == 20)
            assert (status().delivered, status().attempts, status().retried) == (20, 40, 20)
    assert [len(ids(request)) for request in subscriber.requests] == [20, 20]


def multi_status(request: Received, of: Callable[[str], int | str | None], code: int = 207) -> Any:
    """A response with the status of each event, but those of which it is None."""
    items = [{"id": i, "status": of(i)} for i in ids(request) if of(i) is not None]
    return code, {"content-type": "application/json"}, json.dumps({"items": items}).encode()


@pytest.mark.spec("BATCH-08")
async def test_each_event_has_the_status_that_a_207_says_of_it(tmp_path: Path) -> None:
    parts, seen = Parts(), Counter[str]()

    def decide(request: Received) -> Any:
        seen.update(ids(request))
        poor = {"17": 422, "18": 503 if seen["18"] < 3 else 204, "19": "500", "20": 401}
        return multi_status(request, lambda i: poor.get(i, 200))

    with Subscriber(decide=decide) as subscriber:
        delivery = {"retry": 2, "backoff": "linear", "backoff_delay_s": 0.01}
        async with gateway(parts, subscriber.url, tmp_path, {"max_events": 50, "wait": 0.1}, delivery) as status:
            await put(parts, *(event(n) for n in range(50)))
            await until(lambda: status().delivered == 47 and status().dead_lettered == 3)
            found = status()
    assert seen == {str(n): 1 for n in range(50)} | {"18": 3, "19": 3}
    assert (found.attempts, found.retried) == (54, 4)
    letters = {e.attributes["id"]: e.attributes for e in parts.letters.sent}
    assert {i: (a["tidegateattempts"], a["knativeerrorcode"]) for i, a in letters.items()} == {
        "17": (1, "422"), "19": (3, "500"), "20": (1, "401"),
    }  # fmt: skip
    assert b'"status": 422' in base64.b64decode(letters["17"]["knativeerrordata"])


@pytest.mark.spec("BATCH-09")
async def test_an_event_that_a_207_says_nothing_of_is_tried_again(tmp_path: Path) -> None:
    parts, seen = Parts(), Counter[str]()

    def decide(request: Received) -> Any:
        seen.update(ids(request))
        return multi_status(request, lambda i: None if i == "3" and seen["3"] < 3 else 204)

    with Subscriber(decide=decide) as subscriber:
        delivery = {"retry": 2, "backoff_delay_s": 0.01}
        async with gateway(parts, subscriber.url, tmp_path, {"max_events": 5, "wait": 0.05}, delivery) as status:
            await put(parts, *(event(n) for n in range(5)))
            await until(lambda: status().delivered == 5)
    assert seen == {str(n): 1 for n in range(5)} | {"3": 3}


@pytest.mark.spec("BATCH-09")
@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "can't be read"),
        (b'<?xml version="1.0"?><multistatus xmlns="DAV:"/>', "can't be read"),
        (b'{"items": [{"id": "0", "status": 204}, {"id": "1", "status": "done"}]}', "none of a response"),
        (b'{"items": []}', "does not say"),
        (b'{"items": [%s]}' % b",".join([b'{"id": "0", "status": 204}'] * 50_000), "longer than 1048576 bytes"),
    ],
)
async def test_a_207_that_says_nothing_delivers_nothing(body: bytes, says: str, tmp_path: Path) -> None:
    parts = Parts()
    with Subscriber(default=(207, {"content-type": "application/json"}, body)) as subscriber:
        delivery = {"retry": 1, "backoff_delay_s": 0.01}
        async with gateway(parts, subscriber.url, tmp_path, {"max_events": 5, "wait": 0.05}, delivery) as status:
            await put(parts, *(event(n) for n in range(5)))
            await until(lambda: status().dead_lettered == 5)
            assert (status().delivered, status().attempts) == (0, 10)
    for letter in parts.letters.sent:
        assert letter.attributes["knativeerrorcode"] == "207"
        assert says in letter.attributes["tidegatereason"]


@pytest.mark.spec("BATCH-08")
async def test_a_200_may_say_which_events_failed(tmp_path: Path) -> None:
    parts, seen = Parts(), Counter[str]()

    def decide(request: Received) -> Any:
        seen.update(ids(request))
        poor = {"2": 422, "3": 503 if seen["3"] < 2 else None}
        return multi_status(request, poor.get, 200)

    with Subscriber(decide=decide) as subscriber:
        delivery = {"retry": 2, "backoff_delay_s": 0.01}
        async with gateway(parts, subscriber.url, tmp_path, {"max_events": 5, "wait": 0.05}, delivery) as status:
            await put(parts, *(event(n) for n in range(5)))
            await until(lambda: status().delivered == 4 and status().dead_lettered == 1)
    assert seen == {str(n): 1 for n in range(5)} | {"3": 2}


@pytest.mark.spec("BATCH-01")
@pytest.mark.parametrize(
    "body", [b"", b"ok", b'{"accepted": 5}', b'{"items": [{"id": "2", "status": "shipped"}]}', b"[]"]
)
async def test_a_200_with_any_other_body_settles_all(body: bytes, tmp_path: Path) -> None:
    parts = Parts()
    with Subscriber(default=(200, {"content-type": "application/json"}, body)) as subscriber:
        async with gateway(parts, subscriber.url, tmp_path, {"max_events": 5, "wait": 5}) as status:
            await put(parts, *(event(n) for n in range(5)))
            await until(lambda: status().delivered == 5)
    assert len(subscriber.requests) == 1


@pytest.mark.spec("BATCH-04", "BATCH-08")
async def test_the_order_of_a_key_is_kept_when_single_events_of_batches_fail(tmp_path: Path) -> None:
    parts, taken, seen = Parts(), dict[str, list[int]](), Counter[str]()

    def of(one: str) -> int:
        seen[one] += 1
        n = int(one)
        if n % 25 == 7:
            return 422
        if n % 5 == 1 and seen[one] < 3:
            return 503
        taken.setdefault(f"k{n % 8}", []).append(n)
        return 204

    def decide(request: Received) -> Any:
        statuses = {i: of(i) for i in ids(request)}
        return multi_status(request, statuses.get)

    with Subscriber(decide=decide) as subscriber:
        delivery = {"order": "key", "retry": 3, "backoff": "linear", "backoff_delay_s": 0.002}
        async with gateway(parts, subscriber.url, tmp_path, {"max_events": 8, "wait": 0.005}, delivery) as status:
            await put(parts, *(event(n, key=f"k{n % 8}") for n in range(200)))
            await until(lambda: status().delivered + status().dead_lettered == 200)
    assert {int(e.attributes["id"]) for e in parts.letters.sent} == {n for n in range(200) if n % 25 == 7}
    assert all(numbers == sorted(set(numbers)) for numbers in taken.values())
    assert sum(map(len, taken.values())) == 192


@pytest.mark.spec("BATCH-04")
async def test_the_order_of_a_key_is_kept_also_when_batches_fail_and_split(tmp_path: Path) -> None:
    parts = Parts()
    delivery = {"order": "key", "retry": 3, "backoff_delay_s": 0.01}
    seen: dict[str, list[int]] = {}
    answers = iter(range(1000))

    def decide(request: Received) -> int:
        batch = json.loads(request.body)
        keys = [one["partitionkey"] for one in batch]
        assert len(set(keys)) == len(keys), "two events of a key in one batch"
        if next(answers) % 5 == 3:
            return 503
        if any(int(one["id"]) % 50 == 7 for one in batch):
            return 400
        for one in batch:
            seen.setdefault(one["partitionkey"], []).append(int(one["id"]))
        return 204

    with Subscriber(decide=decide) as subscriber:
        async with gateway(parts, subscriber.url, tmp_path, {"max_events": 8, "wait": 0.005}, delivery) as status:
            await put(parts, *(event(n, key=f"k{n % 8}") for n in range(200)))
            await until(lambda: status().delivered + status().dead_lettered == 200)
    assert all(numbers == sorted(set(numbers)) for numbers in seen.values())
    dead = {int(e.attributes["id"]) for e in parts.letters.sent}
    assert {7, 57, 107, 157} <= dead
    assert sorted(n for numbers in seen.values() for n in numbers) == sorted(set(range(200)) - dead)


@pytest.mark.spec("BATCH-05")
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"codec": {"cloudevents": {"mode": "binary"}}}, "mode: binary"),
        ({"codec": "other"}, "JSON batch format"),
        ({"client": "httpx"}, "client: native"),
        ({"webhook": {"origin": "g.example"}}, "single requests"),
        ({"credentials": {"standard_webhooks": {"secrets": ["whsec_" + "x" * 32]}}}, "hmac"),
    ],
)
def test_what_can_not_be_combined_is_a_fault(options: dict[str, Any], says: str) -> None:
    from gateway_http.config import HttpSinkConfig
    from pydantic import ValidationError

    with pytest.raises(ValidationError, match=says):
        HttpSinkConfig.model_validate({"url": "https://x.example/", "batch": {}, **options})


@pytest.mark.spec("BATCH-01")
async def test_a_stop_ends_a_batch_that_is_being_filled(tmp_path: Path) -> None:
    parts = Parts()
    with Subscriber() as subscriber:
        with anyio.fail_after(30):
            async with gateway(parts, subscriber.url, tmp_path, {"wait": 0.2}):
                await put(parts, event(1))
        async with gateway(parts, subscriber.url, tmp_path, {"wait": 0.2}) as status:
            await until(lambda: not status().lag and not status().waiting)
    assert len(subscriber.requests) == 1
