"""Every metric that is documented moves, for the right reason: on real gateways, one for most of them."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import gateway_basics.plugin
import pytest
from gateway_admin.metric_table import BUILD, GROUP, METRICS, PROCESS, READER, SOURCE
from gateway_admin.metrics import render
from gateway_testing import GatewayProcess, Received, Subscriber

from gateway_core import __version__
from gateway_core.contract.component import Component, Config
from gateway_core.contract.event import Event
from gateway_core.contract.hookspecs import hookimpl
from gateway_core.contract.interfaces import Filter, Observer
from tests import web
from tests.delivery.gateway_rig import Parts, running, until
from tests.metrics.scrape import Scrape, parsed, scrape

OK = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s"}

CONFIG = """
brokers:
  default:
    ingress:
      - http: {listen: "127.0.0.1:0"}
      - fn: {listen: "127.0.0.1:0", function: "URLfunction", timeout_s: 0.2}
    delivery: {retry: 1, backoff_delay_s: 0.01}
triggers:
  good: {filter: {type: good}, subscriber: "URLgood"}
  shaky: {filter: {type: shaky}, subscriber: "URLshaky"}
  bad: {filter: {type: bad}, subscriber: "URLbad"}
  held: {filter: {type: held}, subscriber: "URLheld", delivery: {max_in_flight: 1}}
  later: {filter: {type: later}, subscriber: "URLgood", delay: PT1H}
  failing: {filter: {type: failing}, subscriber: "URLfailing", delivery: {retry: 5, backoff_delay_s: 0.01}}
  stuck: {filter: {type: stuck}, subscriber: "URLbad", dead_letter: "URLletters"}
bridges:
  over:
    source: {http: {listen: "127.0.0.1:0"}}
    filters: [exact: {type: good}]
    sink: "URLgood"
  back:
    source: {http: {listen: "127.0.0.1:0"}}
    sink: "URLfailing"
    delivery: {retry: 1, backoff_delay_s: 0.01}
  lettered:
    source: {http: {listen: "127.0.0.1:0"}}
    sink: "URLbridge"
    delivery: {retry: 1, backoff_delay_s: 0.01}
    dead_letter: "URLletters"
"""


class Rig:
    """A gateway, and a subscriber whose answers a test sets by path (202 where it sets none)."""

    def __init__(self, folder: Path) -> None:
        self.answers: dict[str, Any] = {}
        self.release = threading.Event()
        self.subscriber = Subscriber(decide=self._decide)
        self.gateway = GatewayProcess(CONFIG.replace("URL", self.subscriber.url), folder)

    def _decide(self, received: Received) -> Any:
        answer = self.answers.get(received.path, 202)
        if answer == "hold":
            self.release.wait(20)
            return 202
        return answer.pop(0) if isinstance(answer, list) and answer else 202 if answer == [] else answer

    def post(self, type: str, to: str = "default", **more: str) -> int:
        return web.post(
            self.gateway.ingress(to), headers={**OK, "ce-type": type, **more}, timeout=20, verify=False
        ).status_code

    def scrape(self) -> Scrape:
        return scrape(self.gateway)

    def until(self, name: str, value: float, **labels: str) -> Scrape:
        """Waits for a metric's value."""
        self.gateway.wait_until(lambda: self.scrape()(name, **labels) == value, what=f"{name} {labels} to be {value}")
        return self.scrape()


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    rig = Rig(tmp_path_factory.mktemp("metrics"))
    with rig.subscriber, rig.gateway:
        yield rig
        rig.release.set()


OF_INGRESS = (
    "tidegate_broker_events_accepted_total",
    "tidegate_broker_events_refused_total",
    "tidegate_broker_events_unrouted_total",
    "tidegate_broker_accept_duration_seconds",
    "tidegate_channel_events",
    "tidegate_channel_size_bytes",
)


@pytest.mark.spec("BR-24", "BR-20")
@pytest.mark.usefixtures("processes")
def test_what_comes_in(rig: Rig) -> None:
    before = rig.scrape()
    assert [rig.post("good"), rig.post("nobody's"), rig.post("good", **{"ce-specversion": "7"})] == [202, 202, 400]
    after = rig.until("tidegate_broker_events_unrouted_total", before("tidegate_broker_events_unrouted_total") + 1)

    def more(name: str) -> float:
        return after(name, broker="default") - before(name, broker="default")

    assert (more(OF_INGRESS[0]), more(OF_INGRESS[1]), more(OF_INGRESS[4])) == (2, 1, 2)
    assert more("tidegate_channel_size_bytes") > 0
    assert 1 <= more("tidegate_broker_accept_duration_seconds_count") <= 2
    assert 0 < more("tidegate_broker_accept_duration_seconds_sum") < 20


OF_TRIGGERS = (
    "tidegate_trigger_events_delivered_total",
    "tidegate_trigger_attempts_total",
    "tidegate_trigger_retries_total",
    "tidegate_trigger_events_dead_lettered_total",
    "tidegate_trigger_attempt_duration_seconds",
    "tidegate_trigger_delivery_duration_seconds",
)


def counts(found: Scrape, trigger: str) -> list[float]:
    return [found(name, trigger=trigger, broker="default") for name in OF_TRIGGERS[:4]]


@pytest.mark.spec("BR-24", "DP-20")
@pytest.mark.usefixtures("processes")
def test_an_event_that_is_delivered_after_a_retry(rig: Rig) -> None:
    rig.answers["/shaky"] = [503]
    assert rig.post("shaky") == 202
    after = rig.until("tidegate_trigger_events_delivered_total", 1, trigger="shaky")
    assert counts(after, "shaky") == [1, 2, 1, 0]
    attempt, way = ("tidegate_trigger_attempt_duration_seconds", "tidegate_trigger_delivery_duration_seconds")
    assert 1 <= after(f"{attempt}_count", trigger="shaky") <= 2
    # the second attempt may be one that is not timed
    assert after(f"{way}_count", trigger="shaky") <= 1
    assert rig.post("good") == 202
    found = rig.until("tidegate_trigger_lag_events", 0, trigger="good")
    rig.gateway.wait_until(lambda: rig.scrape()(f"{way}_count", trigger="good") >= 1)
    assert 0 < found(f"{attempt}_sum", trigger="good") <= found(f"{way}_sum", trigger="good") < 20


@pytest.mark.spec("BR-19", "BR-24", "DP-20")
@pytest.mark.usefixtures("processes")
def test_the_operator_is_told_of_a_dead_letter(rig: Rig) -> None:
    rig.answers["/bad"] = 400
    assert rig.post("bad") == 202
    after = rig.until("tidegate_trigger_events_dead_lettered_total", 1, trigger="bad", stage="delivery")
    assert counts(after, "bad") == [0, 1, 0, 1]
    assert rig.gateway.trigger("bad")["dead_lettered"] == 1
    assert "trigger bad: event 1 from /s is in the dead letter" in rig.gateway.log()


GAUGES_OF_TRIGGERS = (
    "tidegate_trigger_events_in_flight",
    "tidegate_trigger_events_waiting",
    "tidegate_trigger_lag_events",
    "tidegate_trigger_ready",
    "tidegate_trigger_paused",
    "tidegate_trigger_blocked",
    "tidegate_trigger_events_delayed",
    "tidegate_trigger_delayed_due_timestamp_seconds",
    "tidegate_trigger_delayed_late_seconds",
)


@pytest.mark.spec("DP-20")
@pytest.mark.usefixtures("processes")
def test_what_is_under_way(rig: Rig) -> None:
    rig.answers["/held"] = "hold"
    for _ in range(3):
        assert rig.post("held") == 202
    held = rig.until("tidegate_trigger_lag_events", 3, trigger="held")
    held = rig.until("tidegate_trigger_events_waiting", 2, trigger="held")
    assert held("tidegate_trigger_events_in_flight", trigger="held") == 1
    assert rig.post("later") == 202
    later = rig.until("tidegate_trigger_events_delayed", 1, trigger="later")
    assert later("tidegate_trigger_delayed_due_timestamp_seconds", trigger="later") > time.time()
    assert later("tidegate_trigger_delayed_late_seconds", trigger="later") == 0
    rig.release.set()
    after = rig.until("tidegate_trigger_lag_events", 0, trigger="held")
    assert [after(name, trigger="held") for name in GAUGES_OF_TRIGGERS[:2]] == [0, 0]


@pytest.mark.usefixtures("processes")
def test_a_trigger_whose_subscriber_fails_is_not_ready(rig: Rig) -> None:
    rig.answers["/failing"] = [503] * 5
    assert rig.scrape()("tidegate_trigger_ready", trigger="failing") == 1
    rig.answers["/failing"] = 503
    assert rig.post("failing") == 202
    rig.until("tidegate_trigger_ready", 0, trigger="failing")
    rig.answers["/failing"] = 202
    assert rig.post("failing") == 202
    rig.until("tidegate_trigger_ready", 1, trigger="failing")


@pytest.mark.spec("BR-19")
@pytest.mark.usefixtures("processes")
def test_a_trigger_that_can_not_write_its_dead_letter_is_blocked(rig: Rig) -> None:
    rig.answers.update({"/bad": 400, "/letters": 503})
    assert rig.post("stuck") == 202
    rig.until("tidegate_trigger_blocked", 1, trigger="stuck")
    rig.answers["/letters"] = 202
    after = rig.until("tidegate_trigger_blocked", 0, trigger="stuck")
    assert after("tidegate_trigger_events_dead_lettered_total", trigger="stuck") == 1


OF_BRIDGES = (
    "tidegate_bridge_events_accepted_total",
    "tidegate_bridge_events_refused_total",
    "tidegate_bridge_events_unwanted_total",
    "tidegate_bridge_events_failed_total",
    "tidegate_bridge_events_delivered_total",
    "tidegate_bridge_attempts_total",
    "tidegate_bridge_retries_total",
    "tidegate_bridge_events_dead_lettered_total",
    "tidegate_bridge_attempt_duration_seconds",
    "tidegate_bridge_delivery_duration_seconds",
    "tidegate_bridge_ready",
    "tidegate_bridge_blocked",
    "tidegate_bridge_events_in_flight",
    "tidegate_bridge_events_waiting",
)


def of_bridge(found: Scrape, bridge: str) -> list[float]:
    return [found(name, bridge=bridge) for name in OF_BRIDGES[:7]]


@pytest.mark.usefixtures("processes")
def test_what_goes_over_bridges(rig: Rig) -> None:
    bad = rig.post("good", "over", **{"ce-specversion": "7"})
    assert [rig.post("good", "over"), rig.post("other", "over"), bad] == [202, 202, 400]
    after = rig.scrape()
    assert of_bridge(after, "over") == [2, 1, 1, 0, 1, 1, 0]
    assert after("tidegate_bridge_attempt_duration_seconds_count", bridge="over") == 1
    assert after("tidegate_bridge_delivery_duration_seconds_count", bridge="over") == 1
    assert 0 < after("tidegate_bridge_delivery_duration_seconds_sum", bridge="over") < 20


@pytest.mark.usefixtures("processes")
def test_what_a_bridge_gives_back(rig: Rig) -> None:
    rig.answers["/failing"] = 503
    assert rig.post("good", "back") == 503
    assert of_bridge(rig.scrape(), "back") == [0, 0, 0, 1, 0, 2, 1]
    for _ in range(3):
        rig.post("good", "back")
    rig.until("tidegate_bridge_ready", 0, bridge="back")
    rig.answers["/failing"] = 202
    assert rig.post("good", "back") == 202
    rig.until("tidegate_bridge_ready", 1, bridge="back")


@pytest.mark.usefixtures("processes")
def test_a_bridge_with_a_dead_letter(rig: Rig) -> None:
    rig.answers.update({"/bridge": 400, "/letters": 503})
    posting = threading.Thread(target=rig.post, args=("good", "lettered"))
    posting.start()
    found = rig.until("tidegate_bridge_blocked", 1, bridge="lettered")
    assert found("tidegate_bridge_events_waiting", bridge="lettered") == 1
    rig.answers["/letters"] = 202
    rig.until("tidegate_bridge_blocked", 0, bridge="lettered")
    posting.join(20)
    rig.until("tidegate_bridge_events_dead_lettered_total", 1, bridge="lettered", stage="delivery")
    rig.answers["/bridge"] = "hold"
    rig.release.clear()
    posting = threading.Thread(target=rig.post, args=("good", "lettered"))
    posting.start()
    rig.until("tidegate_bridge_events_in_flight", 1, bridge="lettered")
    rig.release.set()
    posting.join(20)
    rig.until("tidegate_bridge_events_in_flight", 0, bridge="lettered")


OF_FN = ("tidegate_broker_attempts_failed_total", "tidegate_broker_events_dead_lettered_total")


@pytest.mark.usefixtures("processes")
def test_attempts_that_a_source_makes_by_itself(rig: Rig) -> None:
    rig.answers["/function"] = "hold"
    rig.release.clear()
    address = rig.gateway.status()["brokers"][0]["ingress"][1]
    assert web.post(address, json=1, timeout=20, verify=False).status_code == 504
    rig.release.set()
    rig.until(OF_FN[0], 1, broker="default")
    rig.until(OF_FN[1], 1, broker="default", stage="delivery")


OF_CONDITIONS = (
    "tidegate_ready",
    "tidegate_broker_ready",
    "tidegate_channel_writable",
    "tidegate_channel_events_failed_total",
)


@pytest.mark.spec("BR-24")
@pytest.mark.usefixtures("processes")
def test_a_disk_that_is_full(rig: Rig) -> None:
    before = rig.scrape()
    assert [before(name) for name in OF_CONDITIONS[:3]] == [1, 1, 1]
    soft, hard = resource.prlimit(rig.gateway.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(rig.gateway.pid, resource.RLIMIT_FSIZE, (0, hard))
    try:
        assert rig.post("good") == 503
        full = rig.scrape()
        assert [full(name) for name in OF_CONDITIONS[:3]] == [0, 0, 0]
        assert full(OF_CONDITIONS[3]) - before(OF_CONDITIONS[3]) == 1
        assert rig.gateway.admin("/health/ready").status_code == 503
        assert rig.gateway.admin("/health/live").status_code == 200
    finally:
        resource.prlimit(rig.gateway.pid, resource.RLIMIT_FSIZE, (soft, hard))
    rig.until("tidegate_ready", 1)
    assert rig.gateway.admin("/health/ready").status_code == 200
    assert rig.post("good") == 202


OF_CONFIG = ("tidegate_config_generation", "tidegate_config_last_reload_successful")


@pytest.mark.usefixtures("processes")
def test_reloads(rig: Rig) -> None:
    before = rig.scrape()
    text = rig.gateway.config.read_text()
    rig.gateway.config.write_text(text.replace("brokers:", "brockers:"))
    after = rig.until("tidegate_config_last_reload_successful", 0)
    assert after("tidegate_config_generation") == before("tidegate_config_generation")
    rig.gateway.config.write_text(
        text + "  one_more: {source: {http: {listen: '127.0.0.1:0'}}, sink: {file: {path: x.jsonl}}}\n"
    )
    after = rig.until("tidegate_config_generation", before("tidegate_config_generation") + 1)
    assert after("tidegate_config_last_reload_successful") == 1
    assert after("tidegate_bridge_ready", bridge="one_more") == 1


@pytest.mark.usefixtures("processes")
def test_the_process(rig: Rig) -> None:
    """Last, so that there was something to do."""
    found = rig.scrape()
    assert found("tidegate_build_info", version=__version__) == 1
    assert found("process_cpu_seconds_total", worker="0") > 0
    assert found("process_virtual_memory_bytes") > found("process_resident_memory_bytes") > 10e6
    limit = resource.prlimit(rig.gateway.pid, resource.RLIMIT_NOFILE)[0]
    assert found("process_max_fds") == limit
    files = len(list(Path(f"/proc/{rig.gateway.pid}/fd").iterdir()))
    assert abs(found("process_open_fds") - files) < 10
    began = Path(f"/proc/{rig.gateway.pid}").stat().st_mtime
    assert abs(found("process_start_time_seconds") - began) < 60


@pytest.mark.anyio
@pytest.mark.usefixtures("real_time")
async def test_bytes_that_wait_to_be_written(tmp_path: Path) -> None:
    config = {"brokers": {"b": {"ingress": ["tap"], "dead_letter": "letters"}}}
    parts = Parts()
    async with running(parts, config, tmp_path) as gateway:
        assert parsed(render(gateway.status()))("tidegate_channel_waiting_bytes", broker="b") == 0
        parts.tap.put(Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, b"x" * 1000))
        assert parsed(render(gateway.status()))("tidegate_channel_waiting_bytes", broker="b") > 1000


OF_PULLING = ("tidegate_source_lag_events", "tidegate_source_failing")


@pytest.mark.anyio
@pytest.mark.usefixtures("real_time")
async def test_a_source_that_fetches_its_events(tmp_path: Path) -> None:
    config = {"brokers": {"b": {"ingress": ["pull"], "dead_letter": "letters"}}}
    parts = Parts()
    async with running(parts, config, tmp_path) as gateway:
        found = parsed(render(gateway.status()))
        assert [found(name, broker="b", source="tap:") for name in OF_PULLING] == [7, 0]
        parts.pull.error = "away"
        assert parsed(render(gateway.status()))("tidegate_source_failing") == 1


OF_PLUGINS = (
    "tidegate_trigger_filter_errors_total",
    "tidegate_bridge_filter_errors_total",
    "tidegate_observer_errors_total",
)


class Raising(Parts):
    """With a filter and an observer that raise."""

    @hookimpl
    def gateway_filters(self) -> list[Component]:
        def matches(event: Event) -> bool:
            raise ValueError("no such field")

        return [Component("raising", "A test's.", Config, lambda o, c: Filter(matches))]

    @hookimpl
    def gateway_observers(self) -> list[Component]:
        class Broken(Observer):
            def accepted(self, broker: str, events: Sequence[Event]) -> None:
                raise ValueError("no such field")

        return [Component("raising", "A test's.", Config, lambda o, c: Broken())]


@pytest.mark.anyio
@pytest.mark.usefixtures("real_time")
async def test_plugins_that_raise(tmp_path: Path) -> None:
    raising: dict[str, Any] = {"filters": [{"raising": {}}], "dead_letter": "letters"}
    config = {
        "brokers": {"b": {"ingress": ["tap"], "dead_letter": "letters"}},
        "triggers": {"t": {"broker": "b", "subscriber": "far", **raising}},
        "bridges": {"x": {"source": "pull", "sink": "far", **raising}},
        "observers": ["raising"],
    }
    parts = Raising()
    async with running(parts, config, tmp_path) as gateway:
        event = Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, b"")
        parts.tap.put(event)
        parts.pull.put(event)

        def found() -> list[float]:
            scraped = parsed(render(gateway.status()))
            return [scraped(name) for name in OF_PLUGINS]

        await until(lambda: found() == [1, 1, 1])


OF_DATA = ("tidegate_trigger_filter_unreadable_total", "tidegate_bridge_filter_unreadable_total")


class WithFilters(Parts):
    """With the filters that everybody has."""

    @hookimpl
    def gateway_filters(self) -> list[Component]:
        found: list[Component] = gateway_basics.plugin.gateway_filters()
        return found


@pytest.mark.anyio
@pytest.mark.spec("FILT-05", "FILT-10")
@pytest.mark.usefixtures("real_time")
async def test_data_that_filters_can_not_look_at(tmp_path: Path) -> None:
    """It reaches the triggers that want it all the same, and no dead letter."""
    either: dict[str, Any] = {"filters": [{"any": [{"data": {"a": 1}}, {"data": {"b": 1}}]}], "dead_letter": "letters"}
    config = {
        "brokers": {"b": {"ingress": ["tap"], "dead_letter": "letters"}},
        "triggers": {
            "t": {"broker": "b", "subscriber": "far", **either},
            "u": {
                "broker": "b",
                "subscriber": "far",
                "filters": [{"not": {"data": {"a": 1}}}],
                "dead_letter": "letters",
            },
        },
        "bridges": {"x": {"source": "pull", "sink": "far", **either}},
    }
    parts = WithFilters()
    head = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "datacontenttype": "application/json"}
    async with running(parts, config, tmp_path) as gateway:
        for data in (b"{", b'{"a": 2, "b": 1}', b"[" * 101):
            parts.tap.put(Event(dict(head), data))
            parts.pull.put(Event(dict(head), data))

        def told() -> list[Any]:
            status = gateway.status()
            found = [*status.triggers, *status.bridges]
            return [(each.name, each.delivered, each.unreadable, each.dead_lettered) for each in found]

        counted = {"invalid": 1, "too_deep": 1}
        await until(lambda: told() == [("t", 1, counted, 0), ("u", 3, counted, 0), ("x", 1, counted, 0)])
        scraped = parsed(render(gateway.status()))
        assert [scraped(name, reason="invalid") for name in OF_DATA] == [2, 1]


OF_WORKERS = ("tidegate_workers",)
OF_GROUPS = ("tidegate_group_lag_events", "tidegate_group_failing")


@pytest.mark.usefixtures("real_time")
def test_every_metric_is_seen_to_move() -> None:
    """Those of Kafka, of Spark and of several workers are in `test_metrics_far.py`."""
    moved = {
        *(*OF_INGRESS, *OF_TRIGGERS, *GAUGES_OF_TRIGGERS, *OF_BRIDGES, *OF_FN, *OF_CONDITIONS, *OF_CONFIG, *OF_PULLING),
        *(*OF_PLUGINS, *OF_DATA, *OF_WORKERS, "tidegate_channel_waiting_bytes"),
        # see tests/replay/test_replay.py
        *("tidegate_trigger_events_replayed_total", "tidegate_replays_active", "tidegate_replays_failed_total"),
        # see tests/e2e/test_deduplication.py
        *("tidegate_broker_events_duplicate_total", "tidegate_broker_duplicate_conflicts_total"),
        *("tidegate_broker_deduplicate_window_seconds", "tidegate_broker_keys"),
        "tidegate_channel_quarantined_events",  # see tests/log/test_log_quarantine.py
        *(metric.name for metric in METRICS if metric.part in (BUILD, PROCESS, GROUP, READER)),
    }
    assert moved == {metric.name for metric in METRICS}
    assert {metric.name for metric in METRICS if metric.part is SOURCE} == set(OF_PULLING)
