"""A gateway in a process of its own, with its admin API."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from gateway_testing import GatewayProcess, Subscriber

from tests import web

YAML = {"content-type": "application/yaml"}

CONFIG = """
brokers:
  default:
    ingress:
      - http: {listen: "127.0.0.1:0"}
triggers:
  own:
    subscriber: URL
    filter: {type: own}
bridges:
  across:
    source: {http: {listen: "127.0.0.1:0"}}
    sink: URL
apply:
  allow: {folders: [/proc], environment: [RATE], secrets: [key]}
secrets:
  key: {env: THE_KEY}
"""


class Console:
    """Calls the admin API of a gateway process."""

    def __init__(self, gateway: GatewayProcess) -> None:
        self.gateway = gateway
        self.url = gateway.admin_url
        headers = gateway.admin_headers
        self.http = web.client(base_url=self.url, timeout=60, trust_env=False, verify=False, headers=headers)

    def put(self, name: str, text: str, **headers: str) -> httpx.Response:
        return self.http.put(f"/api/v1/triggers/{name}", content=text, headers={**YAML, **headers})

    def apply(self, text: str) -> httpx.Response:
        return self.http.post("/api/v1/apply", content=text, headers=YAML)

    def get(self, section: str, name: str) -> dict:
        response = self.http.get(f"/api/v1/{section}/{name}")
        assert response.status_code == 200, response.text
        return response.json()

    def ready(self, section: str, name: str) -> dict:
        (condition,) = (c for c in self.get(section, name)["status"]["conditions"] if c["type"] == "Ready")
        return condition

    def post(self, path: str) -> httpx.Response:
        return self.http.post(f"/api/v1/{path}")

    def delete(self, name: str) -> httpx.Response:
        return self.http.delete(f"/api/v1/triggers/{name}")

    def send(self, id: str, type: str, broker: str = "default") -> None:
        headers = {"ce-specversion": "1.0", "ce-id": id, "ce-source": "/test", "ce-type": type}
        assert web.post(self.gateway.ingress(broker), headers=headers, verify=False).status_code == 202


Start = Callable[..., Console]


@pytest.fixture(scope="module")
def subscriber() -> Iterator[Subscriber]:
    with Subscriber() as running:
        yield running


@pytest.fixture(scope="module")
def console(subscriber: Subscriber, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """A gateway for a module's tests; each uses triggers of its own."""
    config, folder = CONFIG.replace("URL", subscriber.url), tmp_path_factory.mktemp("gateway")
    with GatewayProcess(config, folder, {"THE_KEY": "hush-hush"}) as gateway:
        running = Console(gateway)
        yield running
        running.http.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a gateway of a test's own: `start(config_text, env, *flags)`."""
    running: list[GatewayProcess] = []
    consoles: list[Console] = []

    def begin(config: str, env: dict[str, str] | None = None, *flags: str) -> Console:
        gateway = GatewayProcess(config, tmp_path, env, *flags)
        running.append(gateway)
        gateway.start()
        consoles.append(Console(gateway))
        return consoles[-1]

    yield begin
    for console in consoles:
        console.http.close()
    for gateway in running:
        gateway.__exit__(None, None, None)
