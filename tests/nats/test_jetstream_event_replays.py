"""Past events of a stream, replayed to one trigger."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nats.conftest import NatsKit
from tests.replay.shared import past_events_go_to_one_trigger


@pytest.mark.spec("AGAIN-05", "AGAIN-13")
@pytest.mark.usefixtures("processes")
def test_past_events_go_to_one_trigger(kit: NatsKit, tmp_path: Path) -> None:
    options = f"servers: 'nats://127.0.0.1:{kit.server.port}', stream: {kit.name}, subject: {kit.name}"
    past_events_go_to_one_trigger(tmp_path, "jetstream", options)
