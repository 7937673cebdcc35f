"""Metrics of several workers, of Kafka and of Spark; metrics that are off; and health while a gateway starts."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from uuid import uuid4

import anyio
import pytest
from anyio.abc import TaskGroup
from gateway_admin import plugin as admin_plugin
from gateway_admin.metric_table import GROUP, METRICS, READER
from gateway_java.kafka import KafkaBroker
from gateway_log import plugin as log_plugin
from gateway_testing import GatewayProcess, Subscriber

from gateway_core.config.registry import Registry
from gateway_core.contract.clock import SystemClock
from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.interfaces import Intake
from gateway_core.contract.settings import Settings
from gateway_core.runtime.gateway import Gateway
from tests import web
from tests.delivery.gateway_rig import Parts, Tap
from tests.ledger import free_port
from tests.metrics.scrape import faults, scrape

OK = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}
BROKER = 'brokers: {default: {ingress: [http: {listen: "127.0.0.1:PORT"}]}}\n'


def post(gateway: GatewayProcess, count: int = 1) -> None:
    for _ in range(count):  # a connection each, so that every worker gets some
        assert web.post(gateway.ingress(), headers=OK, verify=False).status_code == 202


@pytest.mark.spec("BR-24", "DP-20")
@pytest.mark.usefixtures("processes")
def test_numbers_are_those_of_all_workers_and_of_those_that_died(tmp_path: Path) -> None:
    with Subscriber() as s:
        config = BROKER.replace("PORT", str(free_port())) + f"triggers: {{all: {{subscriber: '{s.url}'}}}}\n"
        with GatewayProcess(config, tmp_path, None, "--workers", "2") as g:
            g.wait_until(lambda: scrape(g)("tidegate_workers") == 2)
            post(g, 40)
            name = "tidegate_trigger_events_delivered_total"
            g.wait_until(lambda: scrape(g)(name) == 40, what="all to be counted")
            found = scrape(g)
            assert list(faults(g.admin("/metrics").text)) == []
            assert found("tidegate_broker_events_accepted_total") == found("tidegate_channel_events") == 40
            assert 2 <= found("tidegate_trigger_delivery_duration_seconds_count") <= 40
            assert found("process_cpu_seconds_total", worker="0") > 0 < found("process_cpu_seconds_total", worker="1")
            other = next(p["pid"] for p in g.status()["processes"] if p["worker"] == 1)
            os.kill(other, signal.SIGKILL)
            g.wait_until(lambda: scrape(g)("tidegate_workers") == 1, what="its end to be seen")
            assert scrape(g)(name) == 40
            g.wait_until(lambda: scrape(g)("tidegate_workers") == 2, what="another to run")
            assert scrape(g)(name) == 40, "a counter that fell would look like new events"
            post(g, 10)
            g.wait_until(lambda: scrape(g)(name) == 50, what="the new ones to be counted")


@pytest.mark.spec("BR-24")
@pytest.mark.usefixtures("processes")
def test_one_setting_turns_them_off(tmp_path: Path) -> None:
    with GatewayProcess(BROKER.replace("PORT", "0"), tmp_path, {"TIDEGATE_METRICS": "off"}) as g:
        post(g)
        answer = g.admin("/metrics")
        assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
        status = g.status()
        assert (status["brokers"][0]["accepted"], status["processes"]) == (1, [])
        assert status["brokers"][0]["accept"] is None


@pytest.mark.usefixtures("processes")
def test_they_are_on_by_default_and_say_their_format(tmp_path: Path) -> None:
    with GatewayProcess(BROKER.replace("PORT", "0"), tmp_path) as g:
        answer = g.admin("/metrics")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert list(faults(answer.text)) == []


class Slow(Tap):
    """A source that takes its time to start."""

    def __init__(self) -> None:
        self.may_start = anyio.Event()

    async def start(self, intake: Intake, tasks: TaskGroup) -> None:
        await self.may_start.wait()
        await super().start(intake, tasks)


@pytest.mark.slow
@pytest.mark.anyio
async def test_health_while_a_gateway_starts_and_stops(tmp_path: Path) -> None:
    parts, registry = Parts(), Registry()
    parts.tap = slow = Slow()
    registry.add("parts", parts)
    registry.add("log", log_plugin)
    registry.add("admin", admin_plugin)
    config = GatewayConfig.model_validate({"brokers": {"b": {"ingress": ["tap"], "dead_letter": "letters"}}})
    gateway = Gateway(config, Settings(data_dir=tmp_path, admin="127.0.0.1:0"), registry, SystemClock())
    stop, started = anyio.Event(), anyio.Event()

    async def probe() -> list[int]:
        paths = ("/health/live", "/health/startup", "/health/ready", "/status", "/metrics")
        token = (tmp_path / "admin.token").read_text().strip()
        headers = {"authorization": f"Bearer {token}"}
        async with web.async_client(base_url=gateway.addresses["admin"], verify=False, headers=headers) as client:
            return [(await client.get(path)).status_code for path in paths]

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(gateway.run, stop, started)
        with anyio.fail_after(60):
            while "admin" not in gateway.addresses:  # noqa: ASYNC110
                await anyio.sleep(0.001)
            assert await probe() == [200, 503, 503, 200, 200]
            slow.may_start.set()
            await started.wait()
            assert await probe() == [200, 200, 200, 200, 200]
        stop.set()


KAFKA = """
brokers:
  default:
    ingress:
      - http: {listen: "127.0.0.1:0"}
      - kafka: {bootstrap: "BOOTSTRAP", topic: TOPIC-in}
    channel:
      kafka: {bootstrap: "BOOTSTRAP", topic: TOPIC, group_prefix: TOPIC}
triggers:
  all: {subscriber: URL, delivery: {backoff_delay_s: 0.05, backoff_max_s: 0.05, retry: 1000}}
bridges:
  to:
    source: {http: {listen: "127.0.0.1:0"}}
    sink: {kafka: {bootstrap: "BOOTSTRAP", topic: TOPIC-in}}
"""
OF_GROUPS = {metric.name for metric in METRICS if metric.part is GROUP}


@pytest.mark.timeout(120)
def test_lag_and_errors_of_kafka(tmp_path: Path, own_kafka: object) -> None:
    kafka: KafkaBroker = own_kafka()  # type: ignore[operator]
    topic, answers = f"metrics-{uuid4().hex[:8]}", [503]
    with Subscriber(decide=lambda received: answers[0]) as s:
        config = KAFKA.replace("BOOTSTRAP", kafka.bootstrap).replace("TOPIC", topic).replace("URL", s.url)
        with GatewayProcess(config, tmp_path) as g:
            assert {n for n in OF_GROUPS if scrape(g).has(n)} == OF_GROUPS
            labels = {"broker": "default", "group": f"{topic}.default.all"}
            post(g, 3)
            g.wait_until(lambda: scrape(g)("tidegate_group_lag_events", **labels) == 3, 60, "lag")
            answers[0] = 202
            g.wait_until(lambda: scrape(g)("tidegate_group_lag_events", **labels) == 0, 60, "no lag")
            assert list(faults(g.admin("/metrics").text)) == []
            assert scrape(g)("tidegate_group_failing", **labels) == 0
            assert scrape(g)("tidegate_source_failing", broker="default") == 1, "its topic is not there"
            assert web.post(g.ingress("to"), headers=OK, timeout=20, verify=False).status_code == 202
            g.wait_until(lambda: scrape(g)("tidegate_source_failing", broker="default") == 0, 60, "the topic")
            assert g.admin("/health/ready").status_code == 200
            kafka.kill()
            g.wait_until(lambda: scrape(g)("tidegate_group_failing", **labels) == 1, 60, "the group to fail")
            g.wait_until(lambda: scrape(g)("tidegate_source_failing", broker="default") == 1, 60, "the source to fail")
            g.wait_until(lambda: g.admin("/health/ready").status_code == 503, 60, "the broker not to be ready")
            assert g.status()["brokers"][0]["channel"]["writable"] is False
            g.kill()


SPARK = BROKER.replace("PORT", "0") + (
    "triggers: {t: {subscriber: {spark: {path: table, trigger_interval_s: 0.1, conf: {"
    "spark.driver.extraJavaOptions: '-XX:TieredStopAtLevel=1 -XX:+UseSerialGC'}}}}}\n"
)
OF_READERS = {metric.name for metric in METRICS if metric.part is READER}


@pytest.mark.full
@pytest.mark.timeout(240)
@pytest.mark.usefixtures("own_spark")
def test_what_spark_does(tmp_path: Path) -> None:
    with GatewayProcess(SPARK, tmp_path) as g:
        labels = {"trigger": "t", "broker": "default"}
        assert scrape(g)("tidegate_reader_running", **labels) == 0
        post(g, 3)
        g.wait_until(lambda: scrape(g)("tidegate_reader_lag_events", **labels) == 3)
        g.wait_until(lambda: scrape(g)("tidegate_reader_rows_total", **labels) == 3, 120, "the rows")
        found = scrape(g)
        assert {name for name in OF_READERS if found.has(name)} == OF_READERS
        assert (found("tidegate_reader_running"), found("tidegate_reader_lag_events")) == (1, 0)
        assert found("tidegate_trigger_events_delivered_total", **labels) == 3
        assert 0 < found("tidegate_reader_batch_duration_seconds") < 120
        os.kill(g.trigger("t")["reader"]["pid"], signal.SIGKILL)
        g.wait_until(lambda: scrape(g)("tidegate_reader_restarts_total", **labels) == 1, 60, "a restart")
