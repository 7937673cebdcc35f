"""A trigger on the channel `kafka` goes back to a time, by its consumer group."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
import yaml
from gateway_java.kafka import KafkaBroker
from gateway_kafka.config import KafkaChannelConfig
from gateway_kafka.rewinds import set_back
from gateway_testing import Subscriber
from gateway_testing.process import GatewayProcess

from gateway_core.contract.replayable import RewindRefused
from tests.command_line import tidegate
from tests.replay import lab, shared

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.timeout(240)]


def options(kafka: KafkaBroker) -> str:
    topic = f"back-{uuid.uuid4().hex[:8]}"
    return f"bootstrap: '{kafka.bootstrap}', topic: {topic}, group_prefix: {topic}, partitions: 2, session_timeout_s: 6"


@pytest.mark.spec("AGAIN-29")
@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.full)])
def test_everything_since_then_comes_again(kafka: KafkaBroker, tmp_path: Path, workers: int) -> None:
    shared.a_trigger_goes_back(tmp_path, "kafka", options(kafka), workers)


@pytest.mark.spec("AGAIN-29")
def test_what_was_not_settled_before_that_time_is_not_lost(kafka: KafkaBroker, tmp_path: Path) -> None:
    shared.what_was_not_settled_is_not_lost(tmp_path, "kafka", options(kafka))


@pytest.mark.spec("AGAIN-30")
@pytest.mark.parametrize("delays", [(0.1, 0.3), pytest.param([n * 0.06 for n in range(12)], marks=pytest.mark.full)])
def test_killed_in_a_rewind_it_has_gone_back_or_not(
    kafka: KafkaBroker, tmp_path: Path, delays: Sequence[float]
) -> None:
    shared.killed_in_a_rewind(tmp_path, "kafka", options(kafka), delays, committed)


def committed(gateway: GatewayProcess) -> bool:
    shown = json.loads(tidegate("offsets", "show", gateway.config, "--json").stdout)["groups"]
    return all(p["lag"] == 0 for group in shown for p in group["partitions"])


@pytest.mark.spec("AGAIN-31")
def test_other_gateways_of_the_group_are_named_and_it_is_refused(kafka: KafkaBroker, tmp_path: Path) -> None:
    with Subscriber() as s:
        (tmp_path / "a").mkdir()
        (tmp_path / "b").mkdir()
        config = lab.config(s, options(kafka), kind="kafka")
        with GatewayProcess(config, tmp_path / "a") as a, GatewayProcess(config, tmp_path / "b") as b:
            lab.send(a, lab.ids(10))
            then = lab.now(a)
            lab.send(b, lab.ids(20, 10))
            s.wait_for(60)
            a.wait_until(lambda: a.drained() and b.drained())
            s.requests.clear()
            for way in ("--dry-run", "--yes"):
                said = lab.refused(a, "rewind", "one", "--to", then, way)
                assert "has 2 members (tidegate at 127.0.0.1, tidegate at 127.0.0.1)" in said
                assert "Stop the others" in said
            lab.send(a, lab.ids(20, 50))
            s.wait_for(40)
            assert lab.got(s, "one") == dict.fromkeys(lab.ids(20, 50), 1), "nothing else has changed"
            assert b.stop() == 0
            a.wait_until(a.drained)
            s.requests.clear()
            a.wait_until(lambda: lab.run(a, "rewind", "one", "--to", then, "--dry-run")["count"] == 40)
            assert lab.run(a, "rewind", "one", "--to", then, "--yes")["count"] == 40
            s.wait_for(40)
            a.wait_until(a.drained)
            assert lab.got(s, "one") == dict.fromkeys([*lab.ids(20, 10), *lab.ids(20, 50)], 1)


@pytest.mark.spec("AGAIN-31")
def test_a_group_that_somebody_joined_meanwhile_does_not_go_back(kafka: KafkaBroker, tmp_path: Path) -> None:
    with Subscriber() as s:
        chosen = options(kafka)
        with GatewayProcess(lab.config(s, chosen, kind="kafka"), tmp_path) as gateway:
            lab.send(gateway, lab.ids(10))
            s.wait_for(20)
            gateway.wait_until(lambda: committed(gateway), what="the commits")
            config = KafkaChannelConfig.model_validate(yaml.safe_load(f"{{{chosen}}}"))
            group, topic = config.group_of("default", "one"), config.topic_of("default")
            with pytest.raises(RewindRefused, match="has 1 members"):
                anyio.run(set_back, config, group, topic, {0: 1, 1: 1})
            assert committed(gateway), "nothing has changed"
