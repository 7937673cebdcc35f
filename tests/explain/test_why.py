"""What became of an event of the past: its way to every trigger."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from gateway_testing import Received, Subscriber
from gateway_testing.process import GatewayProcess

from tests import web
from tests.command_line import tidegate

pytestmark = pytest.mark.usefixtures("processes")


CONFIG = """
brokers: {{default: {{ingress: [http: {{listen: "127.0.0.1:{port}"}}], delivery: {{retry: 1, backoff_delay_s: 0.01}}}}}}
triggers:
  good: {{subscriber: "{url}good"}}
  never: {{subscriber: "{url}never"}}
  later: {{subscriber: "{url}later", delivery: {{retry: 5, backoff_delay_s: 600, backoff_max_s: 600}}}}
  slow: {{subscriber: "{url}slow"}}
  other: {{filter: {{type: other}}, subscriber: "{url}good"}}
  queue: {{subscriber: "{url}slow", delivery: {{order: key, max_in_flight: 1}}}}
bridges:
  direct: {{source: {{http: {{listen: "127.0.0.1:0"}}}}, sink: "{url}never", dead_letter: deadletter}}
"""


@contextmanager
def running(folder: Path, *flags: str, config: str = CONFIG, port: int = 0) -> Iterator[GatewayProcess]:
    """A gateway whose subscribers answer at once, never well, or not before the test ends."""
    over = threading.Event()

    def decide(request: Received) -> Any:
        if request.path == "/slow":
            over.wait(60)
        return 503 if request.path in ("/never", "/later") else 202

    with Subscriber(decide=decide) as subscriber:
        text = config.format(port=port, url=subscriber.url)
        with GatewayProcess(text, folder, {"TIDEGATE_DRAIN_TIMEOUT_S": "0.1"}, *flags) as gateway:
            yield gateway
            over.set()


def send(url: str, id: str, **headers: str) -> None:
    attributes = {"ce-specversion": "1.0", "ce-id": id, "ce-source": "/s", "ce-type": "t", **headers}
    web.post(url, content=b"{}", headers=attributes, verify=False)


def why(gateway: GatewayProcess, id: str, **query: str) -> dict[str, Any]:
    found: dict[str, Any] = found_at(gateway, id=id, **query).json()
    return found


def found_at(gateway: GatewayProcess, **query: str) -> httpx.Response:
    url = f"{gateway.admin_url}/api/v1/events"
    return web.get(url, params=query, timeout=30, verify=False, headers=gateway.admin_headers)


def ways(document: dict[str, Any], entry: int = 0) -> dict[str, Any]:
    return {way["name"]: way for way in document["events"][entry]["deliveries"]}


def states(gateway: GatewayProcess, id: str) -> dict[str, str]:
    found = why(gateway, id)
    return {name: way["state"] for name, way in ways(found).items()} if found["events"] else {}


def test_its_way_to_every_trigger(tmp_path: Path) -> None:
    with running(tmp_path) as gateway:
        send(gateway.ingress(), "first", **{"ce-partitionkey": "k"})
        send(gateway.ingress(), "second", **{"ce-partitionkey": "k"})
        expected = {
            "good": "delivered",
            "never": "dead_lettered",
            "later": "retrying",
            "slow": "in_flight",
            "other": "not_matched",
            "queue": "waiting",
        }
        gateway.wait_until(lambda: states(gateway, "second") == expected, what=f"{expected}")
        found = why(gateway, "second")
        (entry,) = found["events"]
        assert (entry["broker"], entry["place"], entry["event"]["source"]) == ("default", "0/2", "/s")
        assert entry["received"].endswith("Z")
        by_name = ways(found)
        assert [(f["attempt"], f["code"]) for f in by_name["never"]["failures"]] == [(1, 503), (2, 503)]
        assert (by_name["never"]["dead_letter"]["attempts"], by_name["never"]["dead_letter"]["code"]) == (2, "503")
        assert by_name["later"]["next"] > by_name["later"]["failures"][0]["at"]
        assert "1 attempt failed, the next one is at" in by_name["later"]["text"]
        assert by_name["other"]["filter"]["found"] == "type is 't'"
        assert by_name["queue"]["text"] == "it waits behind an earlier event of the same order; 1 others are in flight"

        ran = asked(gateway, "second")
        assert ran.returncode == 1  # not all have it yet
        assert "in the channel of broker default at 0/2, received " in ran.stdout
        assert "trigger never: dead lettered" in ran.stdout
        assert "    attempt 2 at " in ran.stdout
        assert "    fails: exact type: 'other' (type is 't')" in ran.stdout
        assert json.loads(asked(gateway, "second", "--json").stdout)["events"][0]["place"] == "0/2"


def asked(gateway: GatewayProcess, *args: str) -> subprocess.CompletedProcess[str]:
    return tidegate("why", "--data-dir", gateway.data_dir, *args)


def test_what_it_does_not_know(tmp_path: Path) -> None:
    with running(tmp_path) as gateway:
        ran = asked(gateway, "nobody")
        assert (ran.returncode, "no event with the id nobody found" in ran.stdout) == (1, True)
        assert "past events of direct can't be searched" in ran.stdout
        assert found_at(gateway).status_code == 422
        assert found_at(gateway, id="1", rest="7").status_code == 422
        assert found_at(gateway, id="1", broker="x").status_code == 404


def test_of_a_bridge_its_dead_letters_and_attempts_are_known(tmp_path: Path) -> None:
    with running(tmp_path) as gateway:
        send(gateway.ingress("direct"), "1")
        (entry,) = why(gateway, "1")["events"]
        (way,) = entry["deliveries"]
        assert (entry["broker"], entry["position"], way["kind"], way["state"]) == (
            "direct",
            None,
            "bridge",
            "dead_lettered",
        )
        assert [f["code"] for f in way["failures"]] == [503]


def test_sources_tell_events_with_one_id_apart(tmp_path: Path) -> None:
    with running(tmp_path) as gateway:
        send(gateway.ingress(), "1")
        send(gateway.ingress(), "1", **{"ce-source": "/z"})
        both, one = why(gateway, "1"), why(gateway, "1", source="/s")
        assert [e["event"]["source"] for e in both["events"]] == ["/z", "/s"]
        assert [e["event"]["source"] for e in one["events"]] == ["/s"]


@pytest.mark.spec("SAFE-123")
def test_a_trigger_that_came_later_is_told(tmp_path: Path) -> None:
    with running(tmp_path) as gateway:
        send(gateway.ingress(), "1")
        text = gateway.config.read_text()
        gateway.config.write_text(text.replace("\nbridges", '\n  late: {subscriber: "http://127.0.0.1:9/"}\nbridges'))
        gateway.wait_until(lambda: "late" in [t["name"] for t in gateway.status()["triggers"] if t["ready"]])
        assert ways(why(gateway, "1"))["late"]["state"] == "before"
        gateway.kill()
        gateway.start()
        assert ways(why(gateway, "1"))["late"]["state"] == "before"


@pytest.mark.spec("SAFE-123")
def test_a_renamed_trigger_has_not_had_what_the_former_one_gave_up(tmp_path: Path) -> None:
    with running(tmp_path, config=CONFIG.partition("  later:")[0]) as gateway:
        send(gateway.ingress(), "1")
        gateway.wait_until(lambda: states(gateway, "1").get("never") == "dead_lettered")
        gateway.config.write_text(gateway.config.read_text().replace("never: {", "renamed: {"))
        gateway.wait_until(lambda: "renamed" in [t["name"] for t in gateway.status()["triggers"] if t["ready"]])
        for _ in range(2):
            expected = {"good": "delivered", "renamed": "before", "never": "dead_lettered"}
            assert states(gateway, "1") == expected
            ran = asked(gateway, "1")
            assert (ran.returncode, "; the broker no longer has this trigger" in ran.stdout) == (1, True)
            gateway.stop()
            gateway.start()


def test_every_worker_is_asked(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with running(tmp_path, "--workers", "2", config=CONFIG.partition("bridges:")[0], port=port) as gateway:
        gateway.wait_until(lambda: len(gateway.status()["processes"]) == 2)
        shards: dict[str, str] = {}
        for n in range(200):
            send(gateway.ingress(), str(n))
            shards.setdefault(why(gateway, str(n))["events"][0]["place"][0], str(n))
            if len(shards) == 2:
                break
        for id in shards.values():
            gateway.wait_until(lambda id=id: states(gateway, id).get("later") == "retrying")  # type: ignore[misc]
            assert ways(why(gateway, id))["never"]["failures"]


@pytest.mark.spec("SAFE-110")
def test_it_says_until_when_an_event_is_retried(tmp_path: Path) -> None:
    config = """
brokers: {{default: {{ingress: [http: {{listen: "127.0.0.1:{port}"}}], delivery: {{backoff_delay_s: 20}}}}}}
triggers:
  day: {{subscriber: "{url}later"}}
  both: {{subscriber: "{url}later", delivery: {{retry: 2, retry_for: 600}}}}
  number: {{subscriber: "{url}later", delivery: {{retry: 2}}}}
"""
    with running(tmp_path, config=config) as gateway:
        send(gateway.ingress(), "1")
        expected = dict.fromkeys(("day", "both", "number"), "retrying")
        gateway.wait_until(lambda: states(gateway, "1") == expected, what=f"{expected}")
        found = ways(why(gateway, "1"))
        status = {trigger["name"]: trigger for trigger in gateway.status()["triggers"]}
        first = {name: datetime.fromisoformat(way["failures"][0]["at"]) for name, way in found.items()}
        for name, seconds in (("day", 86_400), ("both", 600)):
            for text in (found[name]["until"], status[name]["retried_until"]):
                assert abs((datetime.fromisoformat(text) - first[name]).total_seconds() - seconds) < 1
        assert found["day"]["text"].endswith(f"; it is retried until {found['day']['until']}")
        assert found["both"]["text"].endswith(f"; it is retried until {found['both']['until']}, 2 times more at most")
        assert found["number"]["text"].endswith("; it is retried 2 times more at most")
        assert "until" not in found["number"]
        assert (status["number"]["retried_until"], status["number"]["longest_wait_s"]) == (None, 30)
        shown = tidegate("status", "--data-dir", gateway.data_dir).stdout
        assert "RETRIED UNTIL" in shown
        assert "LONGEST WAIT" in shown
        url = f"{gateway.admin_url}/console/triggers/"
        pages = {name: web.get(url + name, headers=gateway.admin_headers, verify=False).text for name in expected}
        assert f'retried until <time datetime="{found["day"]["until"][:13]}' in pages["day"]
        assert "retried until" not in pages["number"]
        assert all("Longest wait" in page for page in pages.values())


def test_with_workers_the_files_of_dead_letters_are_named_as_they_are(tmp_path: Path) -> None:
    config = """
brokers: {{default: {{ingress: [http: {{listen: "127.0.0.1:{port}"}}], delivery: {{retry: 0}}}}}}
triggers: {{never: {{subscriber: "{url}never"}}}}
"""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with running(tmp_path, "--workers", "2", config=config, port=port) as gateway:
        send(gateway.ingress(), "1")
        files = [gateway.data_dir / "dead-letter" / f"default~{worker}.jsonl" for worker in (0, 1)]
        gateway.wait_until(lambda: any(file.exists() and file.read_bytes() for file in files), what="the dead letter")
        for file in files:
            file.write_bytes(b"")
        text = ways(why(gateway, "1"))["never"]["text"]
        assert f"sent to {files[0].as_uri()} or {files[1].as_uri()}, after 1 attempt" in text
