"""Dead letters of a topic's events, replayed to one trigger."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from gateway_java.kafka import KafkaBroker

from tests.deadletter.shared_channel import one_trigger_gets_what_two_gave_up


@pytest.mark.spec("SAFE-90", "SAFE-91")
def test_a_replay_reaches_one_trigger_alone(kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = f"replays-{uuid.uuid4().hex[:8]}"
    options = f"bootstrap: '{kafka.bootstrap}', topic: {topic}, group_prefix: {topic}, partitions: 1"
    one_trigger_gets_what_two_gave_up(tmp_path, f"{{kafka: {{{options}}}}}")
