"""What `tidegate check` says of Kafka's options."""

from __future__ import annotations

from pathlib import Path

from gateway_kafka.config import KafkaSourceConfig
from gateway_kafka.source import KafkaSource

from gateway_core.config.load import load_with_warnings
from gateway_core.registry import Registry

BRIDGES = """\
bridges:
  out: {source: "kafka://127.0.0.1:9092/orders", sink: "http://127.0.0.1:8081/"}
  safe: {source: "kafka://127.0.0.1:9092/orders", sink: "http://127.0.0.1:8081/", dead_letter: deadletter}
"""


def test_a_bridge_from_kafka_without_dead_letter_is_warned_of(tmp_path: Path) -> None:
    file = tmp_path / "tidegate.yaml"
    file.write_text(BRIDGES)
    (warning,) = load_with_warnings([file], Registry.installed(), {})[1]
    assert (warning.path, warning.line) == ("bridges.out", 2)
    assert warning.message.startswith("the bridge has no `dead_letter`")
    assert KafkaSourceConfig.pulls is KafkaSource.pulls is True
