"""Past events of a topic, replayed to one trigger."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from gateway_java.kafka import KafkaBroker

from tests.replay.shared import past_events_go_to_one_trigger


@pytest.mark.spec("AGAIN-05", "AGAIN-13")
@pytest.mark.usefixtures("processes")
def test_past_events_go_to_one_trigger(kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = f"again-{uuid.uuid4().hex[:8]}"
    options = f"bootstrap: '{kafka.bootstrap}', topic: {topic}, group_prefix: {topic}, partitions: 2"
    past_events_go_to_one_trigger(tmp_path, "kafka", options)
