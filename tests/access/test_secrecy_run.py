"""A real gateway with random secrets everywhere, at debug level: nothing that it or its commands write shows one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest
from gateway_testing import GatewayProcess, Subscriber

from tests import web
from tests.access.test_secrecy import assert_hidden
from tests.command_line import tidegate
from tests.ledger import body_of, headers
from tests.planted import install

pytestmark = [pytest.mark.spec("SE-03"), pytest.mark.usefixtures("processes")]

PLUGIN = '''
import logging, os
from gateway_core.contract.component import Component, Config, Transport
from gateway_core.contract.hookspecs import hookimpl
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from tests.command_line import tidegate

if "SPANS" in os.environ:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=open(os.environ["SPANS"], "a"))))
    trace.set_tracer_provider(provider)

class BoomConfig(Config):
    """Raises."""
    where: str
    """Shown in its error."""
    password: str
    """Not shown."""

class Boom:
    def __init__(self, options, context):
        self.options = options
        self.address = "boom:"
        if options.where.startswith("now"):
            raise RuntimeError(f"{options!r} fails {options.where}")
    async def start(self, tasks):
        logging.getLogger("boom").debug("starts with %r, %s", self.options, self.options.where)
    async def stop(self):
        pass
    def send(self, event, timeout_s, done):
        try:
            raise RuntimeError(f"{self.options!r} can't reach {self.options.where}")
        except RuntimeError:
            logging.getLogger("boom").exception("it failed %s", self.options.where)
            raise

@hookimpl
def gateway_transports():
    return [Transport("boom", sink=Component("boom", "Raises.", BoomConfig, Boom))]
'''

CONFIG = """
secrets:
  one: {env: SECRET_ONE}
  two: {file: two.secret}
  three: {env: SECRET_THREE}
observers: [otel]
brokers:
  default:
    ingress:
      - http: {listen: "127.0.0.1:0"}
      - mqtt: {server: "127.0.0.1:1", topic: t, username: "${secret:one}", password: "${secret:two}"}
    delivery: {retry: 0}
triggers:
  by-header:
    subscriber:
      http:
        url: "URLheader"
        headers: {authorization: "Bearer ${secret:one}", x-own: "${secret:two}", x-api-key: "LITERAL"}
  by-path: {subscriber: "URLhooks/${secret:three}"}
  by-user: {subscriber: "WITH_USERuser"}
  away: {subscriber: "http://127.0.0.1:1/${secret:two}?token=LITERAL"}
  boom: {subscriber: {boom: {where: "near ${secret:three} it", password: "LITERAL"}}}
  kafka:
    subscriber:
      kafka:
        bootstrap: "127.0.0.1:1"
        topic: orders
        sasl: {mechanism: PLAIN, username: "${secret:one}", password: "${secret:two}"}
    delivery: {timeout_s: 1}
  nats: {subscriber: {nats: {servers: "nats://127.0.0.1:1", subject: s, token: "LITERAL"}}, delivery: {timeout_s: 1}}
  redis:
    subscriber: {redis: {servers: "127.0.0.1:1", stream: s, username: "${secret:one}", password: "${secret:three}"}}
    delivery: {timeout_s: 1}
  rabbit:
    subscriber: {rabbitmq: {server: "127.0.0.1:1", queue: q, username: "${secret:one}", password: "LITERAL"}}
    delivery: {timeout_s: 1}
"""
TRIGGERS = 9


@pytest.mark.full
def test_a_running_gateway_shows_no_secret(tmp_path: Path) -> None:
    seed = int.from_bytes(os.urandom(4))
    random = Random(seed)
    words = ["".join(random.choices("abcdefghkmnpqrstuvwxyzABCDEFGHKMNPQRSTUVWXYZ23456789", k=24)) for _ in range(5)]
    one, two, three, literal, user = words
    spans = tmp_path / "spans.txt"
    env = {"SECRET_ONE": one, "SECRET_THREE": three, "TIDEGATE_LOG_LEVEL": "debug", "PYTHONFAULTHANDLER": "1"}
    env |= install(tmp_path, PLUGIN) | {"SPANS": str(spans)}
    (tmp_path / "two.secret").write_text(two + "\n")
    seen: dict[str, str] = {}
    with Subscriber(decide=lambda request: (400, {}, b"no")) as s:
        text = CONFIG.replace("WITH_USER", s.url.replace("://", f"://anna:{user}@"))
        text = text.replace("URL", s.url).replace("LITERAL", literal)
        with GatewayProcess(text, tmp_path, env) as gateway:
            own = {**os.environ, **env, "TIDEGATE_DATA_DIR": str(gateway.data_dir)}

            def ran(*words: str) -> str:
                done = tidegate(*words, env={**env, "TIDEGATE_DATA_DIR": str(gateway.data_dir)}, cwd=tmp_path)
                return done.stdout + done.stderr

            tap = subprocess.Popen(
                [sys.executable, "-m", "gateway_core.cli", "tap", "--json", "--trigger", "boom", "--count", "1"],
                env=own, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip
            try:
                number = 0
                end = time.monotonic() + 60
                while tap.poll() is None:  # until it has subscribed
                    assert time.monotonic() < end
                    number += 1
                    answer = web.post(gateway.ingress(), content=body_of(number), headers=headers(number), verify=False)
                    assert answer.status_code == 202
                    time.sleep(0.5)
                seen["tap"] = tap.communicate()[0]
            finally:
                tap.kill()
            assert "boom" in seen["tap"]
            gateway.wait_until(
                lambda: all(t["dead_lettered"] for t in gateway.status()["triggers"]),
                90,
                "dead letters of all triggers",
            )
            sent = {request.path: dict(request.headers) for request in s.requests}
            assert sent["/header"]["authorization"] == f"Bearer {one}"
            assert sent["/header"]["x-own"] == two
            assert f"/hooks/{three}" in sent
            for path in ("/status", "/metrics", "/api/v1/brokers", "/api/v1/triggers", "/api/v1/graph",
                         "/api/v1/graph.svg", "/api/v1/events?id=1", "/api/v1/dead-letters", "/console",
                         "/console/config", "/console/triggers", "/console/dead-letters",
                         "/console/events?id=1"):  # fmt: skip
                seen[path] = gateway.admin(path).text
                assert seen[path]
            seen["cmdline"] = Path(f"/proc/{gateway.pid}/cmdline").read_text()
            event = tmp_path / "event.json"
            event.write_text(json.dumps({"specversion": "1.0", "id": "9", "source": "/s", "type": "t"}))
            config = str(gateway.config)
            for arguments in (["check", config, "--secrets", "--connect", "--json"], ["graph", config],
                              ["explain", str(event), config, "--json"], ["dlq", "list", "-c", config],
                              ["get", "triggers", "-o", "json"]):  # fmt: skip
                seen[" ".join(arguments)] = ran(*arguments)
            gateway.config.write_text(text.replace("mechanism: PLAIN", "mechanism: PLAIN, pass: x"))
            gateway.wait_until(lambda: gateway.status()["config"]["error"], 60, "the fault")
            seen["fault"] = gateway.status()["config"]["error"]
            gateway.config.write_text(text)
            os.kill(gateway.pid, signal.SIGABRT)  # a crash, with what `faulthandler` writes
            os.waitpid(gateway.pid, 0)
            seen["log"] = gateway.stderr.read_text()
    assert "Fatal Python error" in seen["log"]
    assert "near **** it" in seen["log"]
    assert "Traceback" in seen["log"]
    seen["traces"] = spans.read_text()
    assert '"name"' in seen["traces"]
    for file in gateway.data_dir.rglob("*"):
        if file.is_file():
            seen[str(file)] = file.read_bytes().decode("latin-1")
    assert any("dead-letter" in name and "boom" in text for name, text in seen.items())
    for what, shown in seen.items():
        for word in words:
            assert_hidden(word, f"{what} (seed {seed})", shown)


@pytest.mark.parametrize("level", ["debug", "info"])
def test_a_component_that_can_not_be_built_shows_no_secret(tmp_path: Path, level: str) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(
        "secrets: {one: {env: SECRET_ONE}}\n"
        "bridges:\n"
        "  b:\n"
        '    source: {http: {listen: "127.0.0.1:0"}}\n'
        '    sink: {boom: {where: "now ${secret:one}", password: "a-literal-password"}}\n'
    )
    env = {**os.environ, **install(tmp_path, PLUGIN), "SECRET_ONE": "one-quite-secret-word"}
    command = [sys.executable, "-m", "gateway_core.cli", "--log-level", level, "run", str(config)]
    command += ["--data-dir", str(tmp_path / "data")]
    ran = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode != 0
    assert "fails now ****" in ran.stderr
    for word in ("one-quite-secret-word", "a-literal-password"):
        assert_hidden(word, "standard error", ran.stdout + ran.stderr)
