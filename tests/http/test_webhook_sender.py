"""The sink asks for permission to send, and keeps to what it gets (CloudEvents HTTP webhooks 1.0.2 section 4)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from gateway_http.config import HttpSinkConfig
from gateway_http.outcome import unanswered
from gateway_http.webhook_config import HandshakeSenderConfig
from gateway_http.webhook_sender import LONGEST_PACED_S, Answer, Asked, Grant, Permission, grant_of
from gateway_testing import FakeClock, ScriptedSink, Subscriber

from gateway_core.contract.clock import SystemClock
from gateway_core.contract.config_model import DeliveryConfig
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Outcome
from gateway_core.delivery import Subscription

pytestmark = pytest.mark.anyio

ORIGIN = "events.example.com"
OPTIONS = HandshakeSenderConfig(origin=ORIGIN, rate_per_minute=120)


@pytest.fixture
def anyio_backend() -> Any:
    return "asyncio", {"use_uvloop": True}


def event(number: int = 1) -> Event:
    return Event({"specversion": "1.0", "id": str(number), "type": "t", "source": "/s"}, b"{}")


def granted(rate: str = "*", origin: str = ORIGIN, status: int = 200) -> Answer:
    return Answer(status, [(b"webhook-allowed-origin", origin.encode()), (b"webhook-allowed-rate", rate.encode())])


# -- what an answer means ---------------------------


@pytest.mark.spec("WH-01")
@pytest.mark.parametrize(
    ("answer", "rate"),
    [
        (granted("*"), None),
        (granted("60"), 60),
        (granted("60", "*"), 60),
        (granted("60", "Events.Example.COM"), 60),
        (granted("60", status=404), 60),  # the status does not count
        (Answer(200, [(b"webhook-allowed-origin", b"*")]), 120),  # no rate: the one that was asked for
    ],
)
def test_answers_that_grant(answer: Answer, rate: int | None) -> None:
    assert grant_of(answer, OPTIONS) == Grant(rate)


@pytest.mark.spec("WH-01")
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Answer(200, [(b"allow", b"POST")]), "no WebHook-Allowed-Origin"),
        (Answer(200, [(b"webhook-allowed-rate", b"*")]), "no WebHook-Allowed-Origin"),
        (granted("*", "other.example.com"), "'other.example.com', not 'events.example.com'"),
        (granted("*", "*.example.com"), "not 'events.example.com'"),
        (granted("0"), "'0', no rate"),
        (granted("-1"), "no rate"),
        (granted("1e3"), "no rate"),
        (granted("9" * 30), "no rate"),
        (granted("", "*"), "no rate"),
    ],
)
def test_answers_that_do_not(answer: Answer, why: str) -> None:
    found = grant_of(answer, OPTIONS)
    assert isinstance(found, str)
    assert why in found


# -- asking, pacing and asking again, on a simulated clock ---------------------------


class Remote:
    """Stands for the subscriber: holds the validation requests and the events that it gets."""

    def __init__(self, workers: int = 1, options: HandshakeSenderConfig = OPTIONS) -> None:
        self.clock = FakeClock()
        self.asked: list[Asked] = []
        self.sent: list[float] = []
        self.dones: list[Callable[[Outcome], None]] = []
        self.outcomes: list[Outcome] = []
        self.answers: list[Outcome] = []
        self.permission = Permission(options, "http://far/", self.asked.append, self._sent, self.clock, workers)

    def _sent(self, event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
        assert timeout_s == 30.0
        self.sent.append(self.clock.monotonic())
        done(self.answers.pop(0) if self.answers else Outcome(True, code=202))

    def send(self, count: int = 1) -> None:
        for number in range(count):
            self.permission.send(event(number), 30.0, self.outcomes.append)


def test_nothing_is_sent_before_the_grant() -> None:
    remote = Remote()
    remote.send(5)
    assert (len(remote.asked), remote.sent, remote.outcomes) == (1, [], [])
    remote.asked[0](granted("*"))
    assert len(remote.sent) == 5
    assert all(o.delivered for o in remote.outcomes)
    remote.send(3)
    assert (len(remote.asked), len(remote.sent)) == (1, 8)


@pytest.mark.spec("WH-02")
@pytest.mark.parametrize("workers", [1, 2])
def test_the_granted_rate_is_kept(workers: int) -> None:
    remote = Remote(workers)
    remote.send(60)
    remote.asked[0](granted("60"))
    remote.clock.advance(300)
    gap = 1.0 * workers  # each worker has its share
    assert remote.sent == pytest.approx([n * gap for n in range(60)])
    remote.clock.advance(100)
    remote.send(2)  # what was not used is not saved up
    remote.clock.advance(10)
    assert remote.sent[-1] - remote.sent[-2] == pytest.approx(gap)


@pytest.mark.spec("WH-02")
def test_an_attempt_that_would_wait_too_long_goes_back_to_the_queue() -> None:
    remote = Remote()
    remote.send()
    remote.asked[0](granted("1"))
    turns = int(LONGEST_PACED_S / 60)
    remote.send(turns + 3)
    remote.clock.advance(0)
    assert [o.local for o in remote.outcomes if not o.delivered] == [True] * 3
    remote.clock.advance(LONGEST_PACED_S)
    assert len(remote.sent) == turns + 1


@pytest.mark.spec("WH-01")
def test_without_permission_attempts_fail_and_asking_backs_off() -> None:
    remote = Remote()
    waits = []
    for number in range(12):
        remote.send()
        assert len(remote.asked) == number + 1
        remote.asked[-1](Answer(405, []))
        outcome = remote.outcomes[-1]
        assert (outcome.delivered, outcome.retry, outcome.local, outcome.code) == (False, True, False, None)
        assert outcome.reason.startswith("no permission to send: ")
        assert outcome.retry_after_s is not None
        remote.send(2)  # asks nobody meanwhile
        remote.clock.advance(outcome.retry_after_s / 2)
        assert (len(remote.asked), len(remote.outcomes)) == (number + 1, 3 * (number + 1))
        waits.append(outcome.retry_after_s)
        remote.clock.advance(outcome.retry_after_s / 2 + 0.001)
    assert waits[:4] == [1, 2, 4, 8]
    assert waits[-1] == 300
    assert remote.sent == []


@pytest.mark.spec("WH-01")
def test_a_subscriber_that_asks_to_be_left_alone_is() -> None:
    remote = Remote()
    remote.send()
    remote.asked[0](Answer(429, [(b"retry-after", b"40")]))
    assert remote.outcomes[0].retry_after_s == 40


def test_no_answer_is_an_ordinary_failure() -> None:
    remote = Remote()
    remote.send(2)
    remote.asked[0](unanswered("Connection refused"))
    assert [o.reason for o in remote.outcomes] == ["Connection refused"] * 2
    remote.send()
    assert len(remote.asked) == 2  # delivery has its own back-off


@pytest.mark.spec("WH-01")
def test_permission_is_renewed() -> None:
    remote = Remote(options=HandshakeSenderConfig(origin=ORIGIN, renew_s=100))
    remote.send()
    remote.asked[0](granted("60"))
    remote.clock.advance(101)
    remote.send()
    assert (len(remote.asked), len(remote.sent)) == (2, 1)
    remote.asked[1](granted("6000"))
    assert len(remote.sent) == 2


@pytest.mark.spec("WH-01")
@pytest.mark.parametrize("status", [401, 403, 410])
def test_after_a_withdrawal_it_asks_again(status: int) -> None:
    remote = Remote()
    remote.send()
    remote.asked[0](granted("60"))
    remote.send(3)
    remote.answers = [Outcome(False, code=status, reason=str(status))]
    remote.clock.advance(1)
    assert len(remote.sent) == 2
    assert next(o.reason for o in remote.outcomes if not o.delivered) == str(status)
    remote.clock.advance(0.5)
    assert len(remote.sent) == 2  # the other two did not leave
    assert [o.retry for o in remote.outcomes[2:]] == [True, True]
    remote.clock.advance(10)
    remote.send()
    assert (len(remote.asked), len(remote.sent)) == (2, 2)
    remote.asked[1](granted("60"))
    assert len(remote.sent) == 3
    assert remote.outcomes[-1].delivered


@pytest.mark.spec("WH-02")
@pytest.mark.parametrize(
    ("rate", "times"),
    [
        ("600", [0, 1, 1.1, 1.2, 1.3]),  # higher: those that wait leave sooner
        ("30", [0, 2, 4, 6, 8]),  # lower: they leave later
        ("60", [0, 1, 2, 3, 4]),
        ("*", [0, 1, 1, 1, 1]),
    ],
)
def test_a_new_rate_counts_for_those_that_wait(rate: str, times: list[float]) -> None:
    remote = Remote(options=HandshakeSenderConfig(origin=ORIGIN, renew_s=1))
    remote.send(4)
    remote.asked[0](granted("60"))
    remote.clock.advance(1)
    remote.send()  # permission has ended
    remote.asked[1](granted(rate))
    remote.asked[1:] = []
    for _ in range(100):
        remote.clock.advance(0.1)
        for ask in remote.asked[1:]:
            ask(granted(rate))
        remote.asked[1:] = []
    assert remote.sent == pytest.approx(times, abs=1e-6)
    assert len(remote.outcomes) == 5


@pytest.mark.spec("WH-02")
def test_a_rate_that_falls_far_sends_those_that_wait_back_to_the_queue() -> None:
    remote = Remote(options=HandshakeSenderConfig(origin=ORIGIN, renew_s=10))
    remote.send(200)
    remote.asked[0](granted("60"))
    remote.clock.advance(10)
    remote.send()
    remote.asked[1](granted("1"))
    remote.clock.advance(0)
    assert {(o.local, o.retry) for o in remote.outcomes if not o.delivered} == {(True, True)}
    assert len([o for o in remote.outcomes if not o.delivered]) == 201 - 10 - int(LONGEST_PACED_S / 60)


@pytest.mark.spec("WH-01")
@pytest.mark.parametrize("answer", [Answer(405, []), unanswered("Connection refused")])
def test_after_the_permission_ended_nothing_leaves_without_a_new_one(answer: Answer | Outcome) -> None:
    """Not even what has its turn already."""
    remote = Remote(options=HandshakeSenderConfig(origin=ORIGIN, renew_s=10))
    remote.send(30)
    remote.asked[0](granted("60"))
    remote.clock.advance(9.5)
    assert len(remote.sent) == 10
    remote.clock.advance(20)
    assert (len(remote.sent), len(remote.asked)) == (10, 2), "it asks, even if no other event comes"
    remote.asked[1](answer)
    remote.clock.advance(60)
    assert len(remote.sent) == 10
    assert [o.retry for o in remote.outcomes if not o.delivered] == [True] * 20


def test_a_stop_ends_what_waits() -> None:
    remote = Remote()
    remote.send(2)
    remote.permission.release()
    assert [(o.local, o.delivered) for o in remote.outcomes] == [(True, False)] * 2
    remote.asked[0](granted("*"))
    remote.send()
    remote.clock.advance(1)
    assert (remote.sent, len(remote.outcomes)) == ([], 3)


# -- over HTTP ---------------------------


@pytest.mark.spec("WH-01")
async def test_the_handshake(kit: Any, client: str) -> None:
    grants = {"WebHook-Allowed-Origin": ORIGIN, "WebHook-Allowed-Rate": "60000"}
    with Subscriber([(200, grants, b"")]) as subscriber:
        options = {"origin": ORIGIN, "rate_per_minute": 120}
        async with kit.sink(subscriber.url + "in?a=b", client=client, webhook=options) as sink:
            assert (await kit.send(sink)).delivered
            assert (await kit.send(sink)).delivered
        asked, *posts = subscriber.requests
    assert (asked.method, asked.path) == ("OPTIONS", "/in?a=b")
    assert asked.headers["webhook-request-origin"] == ORIGIN
    assert asked.headers["webhook-request-rate"] == "120"
    assert "webhook-request-callback" not in asked.headers
    assert [(p.method, p.headers["webhook-request-origin"]) for p in posts] == [("POST", ORIGIN)] * 2
    assert all("webhook-request-rate" not in p.headers for p in posts)


@pytest.mark.spec("WH-01")
@pytest.mark.parametrize("answer", [200, 405, (200, {"WebHook-Allowed-Origin": "a.example"}, b""), None])
async def test_no_event_without_permission(kit: Any, client: str, answer: Any) -> None:
    with Subscriber(default=answer) as subscriber:
        async with kit.sink(subscriber.url, client=client, webhook={"origin": ORIGIN}) as sink:
            outcome = await kit.send(sink)
        assert (outcome.delivered, outcome.retry, outcome.code) == (False, True, None)
        assert outcome.reason
        assert [r.method for r in subscriber.requests] == ["OPTIONS"]


@pytest.mark.spec("WH-01")
@pytest.mark.parametrize("host", ["256.1.1.1", "a..example", "a" * 70])
async def test_a_host_that_nobody_can_ask_is_an_ordinary_failure(kit: Any, client: str, host: str) -> None:
    """Libraries raise other exceptions for these than for a host that does not answer."""
    async with kit.sink(f"http://{host}/", client=client, webhook={"origin": ORIGIN}) as sink:
        for _ in range(2):
            outcome = await kit.send(sink)
            assert (outcome.delivered, outcome.retry, outcome.code) == (False, True, None)
            assert outcome.reason.startswith("no answer to OPTIONS: ")


@pytest.mark.slow
@pytest.mark.spec("WH-01")
async def test_events_wait_until_permission_comes(kit: Any) -> None:
    """A subscription with a fast back-off against a subscriber that refuses once: no event is lost."""
    asked = threading.Semaphore(1)

    def decide(received: Any) -> Any:
        if received.method == "OPTIONS" and asked.acquire(blocking=False):
            return 403
        return (200, {"WebHook-Allowed-Origin": "*", "WebHook-Allowed-Rate": "*"}, b"")

    with Subscriber(decide=decide) as subscriber:
        async with kit.sink(subscriber.url, webhook={"origin": ORIGIN}) as sink:
            policy = DeliveryConfig(retry=20, backoff_delay_s=0.01, retry_after_max_s=0.01)
            subscription = Subscription("t", sink, policy, SystemClock(), dead_letter=ScriptedSink())
            for number in range(5):
                assert subscription.offer(event(number))
            await kit.until(lambda: subscription.delivered == 5)
        posted = [r.headers["ce-id"] for r in subscriber.requests if r.method == "POST"]
    assert sorted(posted) == ["0", "1", "2", "3", "4"]
    assert [r.method for r in subscriber.requests][:2] == ["OPTIONS"] * 2


# -- options ---------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"probe": True, "webhook": {"origin": ORIGIN}}, "set one"),
        ({"headers": {"WebHook-Request-Origin": "x"}, "webhook": {"origin": ORIGIN}}, "remove it from `headers`"),
        ({"webhook": {"origin": "a b"}}, "DNS name"),
        ({"webhook": {"origin": "a\r\nx: 1"}}, "DNS name"),
        ({"webhook": {"origin": "*"}}, "DNS name"),
        ({"webhook": {"origin": "https://a.example"}}, "DNS name"),
        ({"webhook": {"origin": ORIGIN, "rate_per_minute": 0}}, "greater than or equal to 1"),
    ],
)
def test_wrong_options(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        HttpSinkConfig.model_validate({"url": "http://127.0.0.1/", **options})


@pytest.mark.parametrize(
    ("url", "warned"),
    [("http://partner.example/", True), ("https://partner.example/", False), ("http://127.0.0.1:1/", False)],
)
def test_webhooks_need_https(url: str, warned: bool) -> None:
    options = HttpSinkConfig.model_validate({"url": url, "webhook": {"origin": ORIGIN}})
    assert [place for place, _, _ in options.warnings()] == [("webhook",)] * warned
