"""Hot reload: a running gateway follows its config, and no event notices."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import httpx
import pytest
from gateway_testing import GatewayProcess, Subscriber

from tests import web
from tests.command_line import tidegate
from tests.ledger import Ledger, body_of, dead_letters, free_port, headers, start_senders

pytestmark = pytest.mark.usefixtures("processes")

CONFIG = """
brokers:
  default:
    ingress:
      - http: {listen: "127.0.0.1:PORT"}
triggers:
  one:
    subscriber: URL
"""


MORE = """
  more:
    subscriber: http://127.0.0.1:9/
    filter: {type: none}
"""


def config(port: int, url: str) -> str:
    return CONFIG.replace("PORT", str(port)).replace("URL", url)


def send(url: str, number: int) -> httpx.Response:
    return web.post(url, content=body_of(number), headers=headers(number), verify=False)


def generation(gateway: GatewayProcess) -> int:
    return int(gateway.status()["config"]["generation"])


def rewrite(gateway: GatewayProcess, text: str) -> None:
    """As editors do: a new file in the place of the old one."""
    new = gateway.config.with_suffix(".new")
    new.write_text(text)
    new.replace(gateway.config)


def test_a_changed_file_is_followed(tmp_path: Path) -> None:
    with Subscriber() as a, Subscriber() as b, GatewayProcess(config(free_port(), a.url), tmp_path) as gateway:
        url = gateway.ingress()
        assert send(url, 1).status_code == 202
        gateway.wait_until(lambda: len(a.requests) == 1, 60, "the first event")
        text = gateway.config.read_text().replace(a.url, b.url)
        rewrite(gateway, text + f"  two:\n    subscriber: {a.url}two\n")
        gateway.wait_until(lambda: generation(gateway) == 2, 60, "the reload")
        assert send(url, 2).status_code == 202
        gateway.wait_until(lambda: len(b.requests) == 1 and len(a.requests) == 2, 60, "the second event")
        assert [r.path for r in a.requests] == ["/", "/two"]
        assert [r.headers["ce-id"] for r in b.requests] == ["2"]
        rewrite(gateway, text)
        gateway.wait_until(lambda: generation(gateway) == 3, 60, "the reload")
        assert [t["name"] for t in gateway.status()["triggers"]] == ["one"]
        assert gateway.stop() == 0


def test_a_broken_file_changes_nothing_and_is_told(tmp_path: Path) -> None:
    with Subscriber() as a, GatewayProcess(config(free_port(), a.url), tmp_path) as gateway:
        good = gateway.config.read_text()
        rewrite(gateway, good + "  two:\n    subscribr: http://127.0.0.1:1/\n")
        gateway.wait_until(lambda: gateway.status()["config"]["error"], 60, "the fault")
        error = gateway.status()["config"]["error"]
        assert "tidegate.yaml:10" in error
        assert "subscribr" in error
        shown = tidegate("status", "--data-dir", gateway.data_dir).stdout
        assert "the previous one is still in force" in shown
        assert "tidegate.yaml:10" in shown
        assert send(gateway.ingress(), 1).status_code == 202
        gateway.wait_until(lambda: len(a.requests) == 1, 60, "the event")
        rewrite(gateway, good)
        gateway.wait_until(lambda: gateway.status()["config"]["error"] is None, 60, "the fault to be gone")
        assert generation(gateway) == 1
        assert gateway.stop() == 0


@pytest.mark.spec("BR-05")
def test_the_broker_of_a_trigger_can_not_be_changed(tmp_path: Path) -> None:
    with Subscriber() as a, GatewayProcess(config(free_port(), a.url), tmp_path) as gateway:
        rewrite(gateway, gateway.config.read_text() + "    broker: other\n")
        gateway.wait_until(lambda: gateway.status()["config"]["error"], 60, "the fault")
        assert "the broker of a trigger can't be changed" in gateway.status()["config"]["error"]
        assert gateway.trigger("one")["broker"] == "default"
        assert gateway.stop() == 0


@pytest.mark.spec("BR-07")
def test_a_trigger_turns_ready_when_its_broker_comes(tmp_path: Path) -> None:
    with Subscriber() as a, GatewayProcess(config(free_port(), a.url), tmp_path) as gateway:
        early = f"  early:\n    broker: late\n    subscriber: {a.url}\n"
        rewrite(gateway, gateway.config.read_text() + early)
        gateway.wait_until(lambda: generation(gateway) == 2, 60, "the trigger")
        assert gateway.trigger("early")["ready"] is False
        assert "does not exist" in gateway.trigger("early")["reason"]
        late = '  late: {ingress: [{http: {listen: "127.0.0.1:LATE"}}]}\n'.replace("LATE", str(free_port()))
        rewrite(gateway, gateway.config.read_text().replace("triggers:", late + "triggers:"))
        gateway.wait_until(lambda: gateway.trigger("early")["ready"], 60, "its broker")
        assert send(gateway.ingress("late"), 1).status_code == 202
        gateway.wait_until(lambda: len(a.requests) == 1, 60, "the event")
        assert gateway.stop() == 0


def variants(port: int, url: str, letters: Path) -> list[str]:
    """Configs that differ in everything that a reload may change."""
    base = config(port, url)
    return [
        base,
        base + "    delivery: {max_in_flight: 8}\n",
        base.replace(f':{port}"', f':{port}", limits: {{max_headers: 300}}'),
        base
        + "    filter: {type: crash.test}\n  more:\n    subscriber: http://127.0.0.1:9/\n    filter: {type: none}\n",
        base.replace("triggers:", f"    dead_letter: {{deadletter: {{path: {letters}/default.jsonl}}}}\ntriggers:"),
        base.replace("triggers:", f'      - http: {{listen: "127.0.0.1:{port}", path: /other}}\ntriggers:'),
    ]


def storm(tmp_path: Path, reloads: int, events: int) -> None:
    ledger, finished, port = Ledger(), threading.Event(), free_port()
    with Subscriber(decide=ledger.answer) as s:
        configs = variants(port, s.url, tmp_path / "letters")
        delivery = "    delivery: {retry: 4, backoff_delay_s: 0.02, backoff_max_s: 0.1}\n"
        configs = [c.replace("triggers:", delivery + "triggers:") for c in configs]
        with GatewayProcess(configs[0], tmp_path, {"TIDEGATE_RELOAD": "signal"}) as gateway:
            senders = start_senders(ledger, gateway.ingress(), events, finished)
            try:
                for number in range(1, reloads + 1):
                    gateway.config.write_text(configs[number % len(configs)])
                    os.kill(gateway.pid, signal.SIGHUP)
                    gateway.wait_until(lambda n=number: generation(gateway) == n + 1, 30, f"reload {number}")
                assert gateway.status()["config"]["error"] is None
                for sender in senders:
                    sender.join(120)
            finally:
                finished.set()
            assert len(ledger.accepted) == events
            gateway.wait_until(gateway.drained, 60, "the deliveries")
            found = dead_letters(gateway.data_dir / "dead-letter") | dead_letters(tmp_path / "letters")
            lost = ledger.accepted - set(ledger.delivered) - set(found)
            assert not lost
            assert not ledger.wrong
            assert ledger.closed_doors == 0
            duplicates = sum(ledger.delivered.values()) - len(ledger.delivered)
            print(
                f"{reloads} reloads, {len(ledger.delivered)} delivered, {len(found)} dead letters, {duplicates} twice"
            )
            assert gateway.stop() == 0


@pytest.mark.timeout(180)
@pytest.mark.parametrize(("reloads", "events"), [(20, 1600), pytest.param(100, 8000, marks=pytest.mark.full)])
def test_reloads_under_load_lose_nothing_and_close_no_door(tmp_path: Path, reloads: int, events: int) -> None:
    storm(tmp_path, reloads, events)
