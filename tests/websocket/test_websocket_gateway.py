"""A whole gateway between two WebSocket connections: kills, cuts, reloads, workers, `check`."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from gateway_testing import GatewayProcess
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidHandshake, WebSocketException

from tests import web
from tests.command_line import tidegate
from tests.faults.proxy import Proxy
from tests.websocket.far import ACK, Far
from tests.websocket.rig import EVENT, free_port

pytestmark = pytest.mark.usefixtures("processes")

CONFIG = """
brokers: {default: {ingress: [websocket: {listen: "127.0.0.1:%d", acknowledge: required}]}}
triggers: {all: {subscriber: {websocket: {url: "ws://127.0.0.1:%d/", acknowledge: required}}, delivery: {retry: 1000}}}
"""
WINDOW = 50


class Sender:
    """Sends events over a connection, in a thread; what is not acknowledged when it ends, over the next one. It goes on
    until `stop`, and `acknowledged` has the ids that it may forget."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.acknowledged: set[str] = set()
        self.connections = 0
        self._ends = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def __enter__(self) -> Sender:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Returns when all that was sent is acknowledged."""
        self._ends.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    async def _run(self) -> None:
        protocols: Any = [ACK]
        open: list[str] = []
        number = 0
        while open or not self._ends.is_set():
            with suppress(OSError, InvalidHandshake, WebSocketException, TimeoutError):
                async with connect(self.url, subprotocols=protocols, proxy=None, close_timeout=0.1) as connection:
                    self.connections += 1
                    sent = list(open)
                    for id in sent:
                        await connection.send(EVENT % id)
                    while open or not self._ends.is_set():
                        while len(open) < WINDOW and not self._ends.is_set():
                            number += 1
                            open.append(str(number))
                            sent.append(str(number))
                            await connection.send(EVENT % number)
                        async with asyncio.timeout(5):
                            ack = json.loads(await connection.recv())["ack"]
                        first, last = ack if isinstance(ack, list) else (ack, ack)
                        for id in sent[first - 1 : last]:
                            if id in open:
                                open.remove(id)
                            self.acknowledged.add(id)
            await asyncio.sleep(0.01)


@pytest.mark.spec("WS-04", "WS-05", "WS-07")
def test_nothing_acknowledged_is_lost_by_kills_and_cuts(tmp_path: Path) -> None:
    port = free_port()
    with (
        Far(ACK) as far,
        Proxy(port) as before,
        Proxy(far.port) as behind,
        GatewayProcess(CONFIG % (port, behind.port), tmp_path) as gateway,
    ):
        with Sender(f"ws://127.0.0.1:{before.port}/") as sender:

            def flowing() -> None:
                goal, arrived = len(sender.acknowledged) + 150, len(far.events()) + 100
                gateway.wait_until(
                    lambda: len(sender.acknowledged) > goal and len(far.events()) > arrived, 60, "events to flow"
                )

            def kill() -> None:
                gateway.kill()
                gateway.start()

            def cut(proxy: Proxy) -> None:
                cuts = proxy.cuts
                proxy.cut(777)  # in the middle of a message
                gateway.wait_until(lambda: proxy.cuts > cuts, what="the cut")
                proxy.heal()

            def away() -> None:
                far.leave()
                time.sleep(0.2)
                far.take()

            faults: list[Callable[[], None]] = [kill, lambda: cut(before), lambda: cut(behind), away, kill]
            for fault in faults:
                flowing()
                fault()
            flowing()
        assert sender.connections >= 4
        wanted = {*sender.acknowledged}
        gateway.wait_until(lambda: wanted <= {str(e.attributes["id"]) for e in far.events()}, 60, "all events")
        assert {bytes(e.data or b"") for e in far.events()} == {b'{"n":1}'}
        repeated = len(far.events()) - len({str(e.attributes["id"]) for e in far.events()})
        print(f"{len(wanted)} events, {repeated} repeated, {far.connections} connections")


@pytest.mark.spec("WS-04", "WS-07")
def test_two_workers_share_the_connections_and_lose_nothing(tmp_path: Path) -> None:
    port = free_port()
    with Far(ACK) as far:
        config = CONFIG % (port, far.port)
        with GatewayProcess(config, tmp_path, {"TIDEGATE_WORKERS": "2"}) as gateway:
            gateway.wait_until(lambda: far.connections == 2, 60, "the connection of each worker")
            senders = [Sender(f"ws://127.0.0.1:{port}/") for _ in range(4)]
            for sender in senders:
                sender.__enter__()
            gateway.wait_until(lambda: all(len(s.acknowledged) > 100 for s in senders), 60, "all to send")
            for sender in senders:
                sender.stop()
            sent = sum(len(s.acknowledged) for s in senders)
            gateway.wait_until(lambda: len(far.events()) >= sent, 60, "all events")
            found = [str(e.attributes["id"]) for e in far.events()]
            for sender in senders:
                assert sender.acknowledged <= {*found}
            assert gateway.stop() == 0


@pytest.mark.spec("WS-06", "WS-12")
def test_check_warns_status_tells_and_a_reload_keeps_the_port(tmp_path: Path) -> None:
    port = free_port()
    config = f'brokers: {{default: {{ingress: [websocket: {{listen: "127.0.0.1:{port}"}}]}}}}\n'
    with GatewayProcess(config, tmp_path) as gateway:
        checked = tidegate("check", str(gateway.config))
        assert checked.returncode == 0
        assert "at most once" in checked.stdout + checked.stderr
        url = f"ws://127.0.0.1:{port}/"
        with Sender(url) as sender:
            gateway.wait_until(lambda: len(sender.acknowledged) > 10, what="events")
            gateway.config.write_text(config.replace(f'{port}"', f'{port}", acknowledge: required'))
            assert web.get(url.replace("ws:", "http:"), verify=False).status_code == 426
            gateway.wait_until(lambda: sender.connections >= 2, 60, "the reload to close the connection")
            goal = len(sender.acknowledged) + 10
            gateway.wait_until(lambda: len(sender.acknowledged) > goal, what="events after the reload")
        (source,) = gateway.status()["brokers"][0]["sources"]
        assert source["connections"] == 0
        checked = tidegate("check", str(gateway.config))
        assert "at most once" not in checked.stdout + checked.stderr


@pytest.mark.spec("WS-03")
def test_check_connect_tries_the_server(tmp_path: Path) -> None:
    file = tmp_path / "tidegate.yaml"
    with Far(ACK) as far:
        file.write_text(
            'brokers: {default: {ingress: [http: {listen: "127.0.0.1:0"}]}}\n'
            f'triggers: {{all: {{subscriber: {{websocket: {{url: "{far.url}", acknowledge: required}}}}}}}}\n'
        )
        assert tidegate("check", "--connect", str(file)).returncode == 0
        far.leave()
        done = tidegate("check", "--connect", str(file))
        assert done.returncode == 1
        assert far.url in done.stdout + done.stderr
