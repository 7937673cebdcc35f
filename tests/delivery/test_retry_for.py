"""Retries by time: `retry_for`, its default, and how it goes together with `retry`."""

from __future__ import annotations

from typing import Any

import pytest
from gateway_testing import ScriptedSink

from gateway_core.contract.backoff import ceiling_s
from gateway_core.contract.config_model import BridgeConfig, DeliveryConfig, GatewayConfig
from gateway_core.contract.interfaces import DELIVERED, Outcome
from gateway_core.contract.moments import stamped
from gateway_core.contract.status import TriggerStatus
from gateway_core.pipeline.infos import delivery_facts
from tests.delivery.test_subscription import BUSY, Rig

SILENT = Outcome(False, retry=True, reason="connection refused")


def given_up_after(rig: Rig, outcome_s: float = 200_000.0) -> tuple[float, int]:
    """The seconds until the event is in the dead letter, and its attempts."""
    rig.offer(1)
    seconds = 0.0
    while not rig.letters.sent and seconds < outcome_s:
        rig.clock.advance(5)
        seconds += 5
    return seconds, len(rig.sink.sent)


@pytest.mark.spec("SAFE-82")
def test_by_default_an_event_is_retried_for_a_day() -> None:
    rig = Rig(ScriptedSink(default=BUSY))
    seconds, attempts = given_up_after(rig)
    assert 86_400 <= seconds <= 86_400 + 305
    assert 300 < attempts < 400
    assert rig.letters.sent[0].attributes["tidegateattempts"] == attempts


@pytest.mark.spec("SAFE-82")
def test_a_deploy_of_three_minutes_loses_nothing_to_the_dead_letter() -> None:
    rig = Rig(ScriptedSink(default=SILENT))
    rig.offer(*range(1, 101))
    rig.clock.advance(180)
    rig.sink.default = DELIVERED
    rig.clock.advance(60)
    assert sorted(rig.feed.acked) == list(range(1, 101))
    assert rig.letters.sent == []


@pytest.mark.spec("SAFE-82")
@pytest.mark.parametrize(
    ("policy", "attempts"),
    [
        ({"retry": 0}, 1),
        ({"retry": 10}, 11),
        ({"retry": 3, "retry_for": 10_000}, 4),
        ({"retry_for": 0}, 1),
        ({"retry_for": 1, "backoff_delay_s": 0.2}, 4),  # after 0, 0.2, 0.6 and 1.4 s
        ({"retry": 100, "retry_for": 1, "backoff_delay_s": 0.2}, 4),
    ],
)
def test_whichever_is_set_decides_and_of_both_the_first(policy: dict[str, Any], attempts: int) -> None:
    assert given_up_after(Rig(ScriptedSink(default=BUSY), **policy))[1] == attempts


@pytest.mark.spec("SAFE-82")
def test_events_of_an_outage_are_given_up_when_their_time_is_over() -> None:
    rig = Rig(ScriptedSink(default=SILENT), retry_for=600)
    rig.offer(*range(1, 201))
    rig.clock.advance(599)
    assert rig.letters.sent == []
    rig.clock.advance(100)
    assert len(rig.letters.sent) == 200
    assert sorted(rig.feed.acked) == list(range(1, 201))


@pytest.mark.parametrize(
    ("elapsed", "longest"), [(0, 30), (899, 30), (900, 60), (1800, 120), (3600, 240), (7200, 300), (86_400, 300)]
)
def test_the_longest_wait_grows_unless_it_or_the_number_of_retries_is_set(elapsed: float, longest: float) -> None:
    assert ceiling_s(DeliveryConfig(), 50, elapsed) == longest
    assert ceiling_s(DeliveryConfig(retry_for=3600), 50, elapsed) == longest
    assert ceiling_s(DeliveryConfig(retry=50), 50, elapsed) == 30
    assert ceiling_s(DeliveryConfig(backoff_max_s=20), 50, elapsed) == 20


@pytest.mark.parametrize(
    ("own", "base", "ends"),
    [
        ({}, {}, (float("inf"), 86_400)),
        ({}, {"retry": 5}, (6, float("inf"))),
        ({"retry_for": 60}, {"retry": 5}, (float("inf"), 60)),
        ({"retry": 5}, {"retry_for": 60}, (6, float("inf"))),
        ({"timeout_s": 5}, {"retry_for": 60}, (float("inf"), 60)),
    ],
)
def test_a_triggers_choice_of_when_to_give_up_replaces_its_brokers(own: Any, base: Any, ends: Any) -> None:
    policy = DeliveryConfig(**own).over(DeliveryConfig(**base))
    assert (policy.most_attempts, policy.retries_for_s) == ends


def test_a_bridge_whose_sender_waits_does_not_retry_unless_told() -> None:
    default = BridgeConfig.model_fields["delivery"].default
    assert default.most_attempts == 1
    assert DeliveryConfig(timeout_s=5).over(default).most_attempts == 1
    assert DeliveryConfig(retry_for=5).over(default).retries_for_s == 5


@pytest.mark.spec("SAFE-110")
def test_the_status_says_until_when_events_are_retried_and_how_long_waits_are() -> None:
    rig = Rig(ScriptedSink([DELIVERED, SILENT], default=SILENT))
    rig.offer(1)
    facts = delivery_facts(rig.subscription, None)
    assert not {"retried_until", "longest_wait_s"} & set(facts)
    began_ns = rig.clock.now_ns()
    rig.offer(2)
    rig.clock.advance(10)
    rig.offer(*range(3, 10))
    day = stamped(began_ns + 86_400 * 10**9)
    for elapsed, longest in ((0, 30), (1000, 60), (7200, 300)):
        rig.clock.advance(elapsed)
        facts = delivery_facts(rig.subscription, None)
        assert (facts["retried_until"][:19], facts["longest_wait_s"]) == (day[:19], longest)
    rig.sink.default = DELIVERED
    rig.clock.advance(600)
    assert "retried_until" not in delivery_facts(rig.subscription, None)


def test_the_statuses_of_workers_tell_the_first_end_and_the_longest_wait() -> None:
    early, late = ("2026-11-27T10:00:00.000000Z", 30.0), ("2026-11-27T11:00:00.000000Z", 300.0)
    none, a, b = (TriggerStatus(name="t", broker="b", retried_until=u, longest_wait_s=w) for u, w in
                  ((None, None), early, late))  # fmt: skip
    for order in ((none, a, b), (b, none, a), (a, b, none)):
        merged = order[0].merged(order[1]).merged(order[2])
        assert (merged.retried_until, merged.longest_wait_s) == (early[0], late[1])


@pytest.mark.spec("SAFE-111")
@pytest.mark.parametrize(
    ("broker", "trigger", "places"),
    [
        ({}, {}, []),
        ({"retry_for": 20}, {}, []),  # no wait gets so long
        ({"retry_for": 0, "backoff_max_s": 60}, {}, []),
        ({"retry": 5, "backoff_max_s": 60}, {}, []),
        ({"retry_for": 59, "backoff_max_s": 60}, {}, [("brokers", "default", "delivery", "retry_for")]),
        ({"retry_for": 60, "backoff_max_s": 60}, {}, []),
        ({"backoff_max_s": 3600}, {}, []),  # the default is no choice
        ({"retry_for": 10}, {"backoff_max_s": 60}, [("triggers", "t", "delivery", "backoff_max_s")]),
        ({"backoff_max_s": 60}, {"retry_for": 10}, [("triggers", "t", "delivery", "retry_for")]),
        ({"retry_for": 10}, {"backoff_delay_s": 15}, [("triggers", "t", "delivery", "backoff_delay_s")]),
        ({"retry_for": 10, "backoff_max_s": 60}, {"retry_for": 100}, [("brokers", "default", "delivery", "retry_for")]),
    ],
)
def test_the_check_warns_of_a_wait_that_is_longer_than_the_retries(broker: Any, trigger: Any, places: Any) -> None:
    text = {
        "brokers": {"default": {"ingress": [{"http": {"listen": "127.0.0.1:0"}}], "delivery": broker}},
        "triggers": {"t": {"subscriber": "http://127.0.0.1:1/", "delivery": trigger}},
    }
    config = GatewayConfig.model_validate(text)
    found = [(place, message) for place, message, _ in config.warnings() if "retry_for" in message]
    assert [place for place, _ in found] == places
