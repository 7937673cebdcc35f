"""Dead letters of a stream's events, replayed to one trigger."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.deadletter.shared_channel import one_trigger_gets_what_two_gave_up
from tests.nats.conftest import NatsKit


@pytest.mark.spec("SAFE-90", "SAFE-91")
def test_a_replay_reaches_one_trigger_alone(kit: NatsKit, tmp_path: Path) -> None:
    options = f"servers: 'nats://127.0.0.1:{kit.server.port}', stream: {kit.name}, subject: {kit.name}"
    one_trigger_gets_what_two_gave_up(tmp_path, f"{{jetstream: {{{options}}}}}")
