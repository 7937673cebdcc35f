"""After a replay nothing calls the event given up, even if its dead letter did not know its place in the log."""

from __future__ import annotations

from pathlib import Path

import pytest
from gateway_testing import Subscriber
from gateway_testing.process import GatewayProcess

from tests.command_line import tidegate
from tests.explain.test_why import send, ways, why

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.spec("SAFE-122")]

CONFIG = """
brokers:
  default:
    ingress: [http: {{listen: "127.0.0.1:0"}}]
    delivery: {{retry: 0}}
    dead_letter: {{file: {{path: {folder}/letters.jsonl}}}}
triggers: {{late: {{subscriber: "{url}late"}}}}
"""


class World:
    def __init__(self, folder: Path) -> None:
        self.up = False
        self.subscriber = Subscriber(decide=lambda r: 202 if self.up else 400)
        self.letters = folder / "letters.jsonl"

    def given_up(self, gateway: GatewayProcess, count: int) -> None:
        for n in range(count):
            send(gateway.ingress(), str(n % 2))  # an id may come more than once
        gateway.wait_until(
            lambda: self.letters.exists() and self.letters.read_bytes().count(b"\n") == count, what="dead letters"
        )
        self.up = True

    def replay(self, gateway: GatewayProcess) -> str:
        return tidegate("dlq", "replay", "--all", "--data-dir", gateway.data_dir).stdout

    def all_is_well(self, gateway: GatewayProcess) -> None:
        for id_ in ("0", "1"):
            found = why(gateway, id_)
            for n in range(len(found["events"])):
                assert "; replayed at " in ways(found, n)["late"]["text"]
            assert tidegate("why", id_, "--data-dir", gateway.data_dir).returncode == 0
        assert tidegate("dlq", "list", "--data-dir", gateway.data_dir).stdout.startswith("no dead letters\n")


def test_from_a_file(tmp_path: Path) -> None:
    w = World(tmp_path)
    with w.subscriber as s, GatewayProcess(CONFIG.format(url=s.url, folder=tmp_path), tmp_path) as gateway:
        w.given_up(gateway, 4)
        assert w.replay(gateway) == "4 replayed, 0 left\n"
        w.all_is_well(gateway)
        gateway.kill()
        gateway.start()
        w.all_is_well(gateway)


def test_after_an_import(tmp_path: Path) -> None:
    w = World(tmp_path)
    with w.subscriber as s:
        with GatewayProcess(CONFIG.format(url=s.url, folder=tmp_path), tmp_path) as gateway:
            w.given_up(gateway, 2)
            gateway.stop()  # not killed: what has just been given up would be delivered after the start
        gateway.config.write_text(
            "\n".join(line for line in gateway.config.read_text().splitlines() if "file:" not in line)
        )
        gateway.start()
        try:
            options = ("-c", gateway.config, "--data-dir", gateway.data_dir)
            assert tidegate("dlq", "import", tmp_path / "letters.jsonl", *options).stdout == "2 imported\n"
            listed = tidegate("dlq", "list", "--data-dir", gateway.data_dir).stdout
            assert ("400 Bad Request" in listed, "given up and sent to" in listed) == (True, False)
            assert w.replay(gateway) == "2 replayed, 0 left\n"
            w.all_is_well(gateway)
        finally:
            gateway.stop()
