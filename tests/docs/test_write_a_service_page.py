"""The service that docs/howto/write-a-service.md makes does what the page says, with the contract alone."""

from __future__ import annotations

import ast
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from gateway_log import plugin as log_plugin
from gateway_testing import ScriptedSink

from gateway_core.config.registry import Registry
from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.event import Event
from gateway_core.contract.outcome import DELIVERED, Outcome
from gateway_core.contract.settings import Settings
from gateway_core.runtime.gateway import Gateway
from tests.delivery.gateway_rig import Parts, until
from tests.docs.blocks import of_page
from tests.in_process import started

SOON = {"retry": 1000, "backoff": "linear", "backoff_delay_s": 0.01}
CONFIG = {
    "brokers": {"b": {"ingress": ["tap"], "dead_letter": "letters"}},
    "triggers": {"t": {"broker": "b", "subscriber": "far", "delivery": SOON}},
}
(BLOCK,) = of_page("docs/howto/write-a-service.md", "python")


@contextmanager
def pager() -> Iterator[tuple[str, list[Any]]]:
    """A server that takes messages, and the messages."""
    messages: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            messages.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", messages
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_it_imports_nothing_but_the_contract() -> None:
    modules = [n.module or "" for n in ast.walk(ast.parse(BLOCK.text)) if isinstance(n, ast.ImportFrom)]
    assert all(name.startswith("gateway_core.contract.") for name in modules if name.startswith("gateway"))


@pytest.mark.anyio
@pytest.mark.spec("CARD-05")
async def test_it_posts_when_a_trigger_is_not_ready_and_when_it_is_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = ScriptedSink(default=Outcome(False, retry=True, reason="503 from the subscriber"), address="far:")
    parts = Parts(far=far)
    registry = Registry()
    registry.add("parts", parts)
    registry.add("log", log_plugin)
    with pager() as (url, messages):
        monkeypatch.setenv("PAGER_URL", url)
        monkeypatch.setenv("PAGER_LOOK_EVERY_S", "0.001")
        plugin = ModuleType("tidegate_pager")
        exec(compile(BLOCK.text, BLOCK.name, "exec"), vars(plugin))
        registry.add("pager", plugin)
        settings = Settings(data_dir=tmp_path, admin="off", drain_timeout_s=5)
        gateway = Gateway(GatewayConfig.model_validate(CONFIG), settings, registry)
        async with started(gateway):
            parts.tap.put(Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, None))
            await until(lambda: len(messages) == 1)
            far.default = DELIVERED
            await until(lambda: len(messages) == 2)
    assert [(m["trigger"], m["ready"]) for m in messages] == [("t", False), ("t", True)]
    assert "503 from the subscriber" in messages[0]["reason"]
