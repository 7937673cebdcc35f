"""Events of a channel that several gateways may share, given up by two triggers: one of them gets them again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway_testing.process import GatewayProcess

from tests.deadletter.test_replay_alone import World
from tests.explain.test_why import send, ways, why

CONFIG = """
brokers: {{default: {{channel: {channel}, ingress: [http: {{listen: "127.0.0.1:0"}}], delivery: {{retry: 0}}}}}}
triggers:
  good: {{subscriber: "{url}good", start: earliest}}
  late: {{subscriber: "{url}late", start: earliest}}
  later: {{subscriber: "{url}later", start: earliest}}
"""
IDS = ["0", "1", "2"]


def one_trigger_gets_what_two_gave_up(folder: Path, channel: str) -> None:
    """Fails unless a replay to one trigger reaches that one alone, and `why` says what is true, also after a restart.
    `channel` is its YAML."""
    w = World(folder, "/late", "/later")
    with w.subscriber as s, GatewayProcess(CONFIG.format(url=s.url, channel=channel), folder) as w.gateway:
        for id_ in IDS:
            send(w.gateway.ingress(), id_)
        w.gateway.wait_until(lambda: w.letters() == sorted(IDS * 2), what="a dead letter of each of two triggers")
        w.gateway.wait_until(lambda: w.got("/good") == IDS, what="what the third one takes")
        assert states(w, "1") == {"good": "delivered", "late": "dead_lettered", "later": "dead_lettered"}

        w.subscriber.requests.clear()
        w.up = True
        done = w.ended(w.post(all=True, trigger="late"))
        assert (done["state"], done["accepted"], done["left"]) == ("done", 3, 0)
        assert w.letters() == IDS, "those of the other trigger"
        assert states(w, "1") == {"good": "delivered", "late": "delivered", "later": "dead_lettered"}
        send(w.gateway.ingress(), "last")
        w.gateway.wait_until(
            lambda: all("last" in w.got(path) for path in ("/good", "/late", "/later")), what="an event after those"
        )
        assert (w.got("/good"), w.got("/late"), w.got("/later")) == (["last"], [*IDS, "last"], ["last"])

        w.gateway.stop()  # a kill would make Kafka redeliver the last few
        w.gateway.start()
        settled = {"good": "settled", "late": "settled", "later": "dead_lettered"}
        w.gateway.wait_until(lambda: states(w, "1") == settled, what="what is known of events before a start")
        assert w.got("/later") == ["last"]


def states(world: World, id: str) -> dict[str, Any]:
    """What `why` says of an event, by trigger."""
    found = why(world.gateway, id)
    return {name: way["state"] for name, way in ways(found).items()} if found["events"] else {}
