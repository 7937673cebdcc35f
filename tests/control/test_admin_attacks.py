"""Requests and answers that a user of the admin API or its commands did not expect."""

from __future__ import annotations

import json
import logging
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest
from anyio.abc import TaskGroup
from gateway_admin.operators import AdminCallers, Operators
from gateway_admin.service import AdminService
from gateway_api.routes import Problem, Request
from gateway_api.tokens import Tokens
from gateway_testing import GatewayProcess

from tests import web
from tests.command_line import tidegate
from tests.servers_shared import need

CONFIG = "brokers: {default: {ingress: [{http: {listen: '127.0.0.1:0'}}]}}\n"
HOST = "Host: 127.0.0.1\r\n"


@pytest.fixture(scope="module")
def gateway(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(CONFIG, tmp_path_factory.mktemp("gateway")) as running:
        yield running


def raw(gateway: GatewayProcess, head: str, body: bytes = b"") -> tuple[int, str]:
    """Status and text of the answer to a request as it is written here."""
    port = int(gateway.admin_url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        connection.sendall(f"{head}{length}Connection: close\r\n\r\n".encode("latin-1") + body)
        with connection.makefile("rb") as answer:
            text = answer.read().decode()
    return int(text.split()[1]), text


def own(gateway: GatewayProcess) -> str:
    return f"Authorization: {gateway.admin_headers['authorization']}\r\n"


@pytest.mark.spec("AD-04")
def test_several_fields_of_one_name_are_one_list(gateway: GatewayProcess) -> None:
    other = "Authorization: Bearer other\r\n"
    for fields in (own(gateway) + other, other + own(gateway)):
        assert raw(gateway, f"GET /status HTTP/1.1\r\n{HOST}{fields}")[0] == 401
    port = gateway.admin_url.rpartition(":")[2]
    name = f"Host: 127.0.0.1:{port}\r\n"
    mine, foreign = f"Origin: http://127.0.0.1:{port}\r\n", "Origin: https://evil.example\r\n"
    change = f"POST /api/v1/reload HTTP/1.1\r\n{name}{own(gateway)}"
    assert raw(gateway, change + mine)[0] == 200
    for fields in (foreign + mine, mine + foreign):
        assert raw(gateway, change + fields)[0] == 403


@pytest.mark.spec("AD-06")
def test_the_audit_log_names_whose_browser_was_misused(gateway: GatewayProcess) -> None:
    change = f"DELETE /api/v1/triggers/misused HTTP/1.1\r\n{HOST}{own(gateway)}Origin: https://evil.example\r\n"
    assert raw(gateway, change)[0] == 403
    lines = [json.loads(text) for text in (gateway.data_dir / "audit" / "audit.jsonl").read_text().splitlines()]
    (line,) = [line for line in lines if "misused" in line.get("path", "")]
    assert (line["who"], line["what"], line["result"]) == ("admin token", "trigger.delete", "denied")


DEEP = b'{"a":' * 50_000 + b"1" + b"}" * 50_000
TOO_MUCH = {
    "a deep event": ("POST /api/v1/explain", b'{"event":%s}' % DEEP),
    "deep data": (
        "POST /api/v1/explain",
        b'{"event":{"specversion":"1.0","id":"1","source":"/","type":"t","data":%s}}' % DEEP,
    ),
    "a deep place to continue": ("GET /api/v1/events?id=1&rest=" + "[" * 3000, b""),
    "a name with NUL": ("PUT /api/v1/triggers/a%00b", b"subscriber: http://127.0.0.1:9/"),
    "names with NUL": ("POST /api/v1/apply", b'{"triggers": {"a\\u0000b": {"subscriber": "http://127.0.0.1:9/"}}}'),
    "a name elsewhere": ("PUT /api/v1/triggers/..%2f..%2fx", b"subscriber: http://127.0.0.1:9/"),
}


@pytest.mark.parametrize(("request_line", "body"), TOO_MUCH.values(), ids=TOO_MUCH)
def test_a_callers_mistake_is_told_to_the_caller(gateway: GatewayProcess, request_line: str, body: bytes) -> None:
    media = "Content-Type: application/json\r\n" if body[:1] == b"{" else "Content-Type: application/yaml\r\n"
    status, text = raw(gateway, f"{request_line} HTTP/1.1\r\n{HOST}{own(gateway)}{media}", body)
    assert status == 422, text[:300]
    assert "unexpected error" not in gateway.log()


@pytest.mark.spec("AD-07")
def test_no_file_is_read_before_a_component_is_allowed(gateway: GatewayProcess, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    spark = f"{{spark: {{path: {tmp_path}/t, json_schema: {{FILE}}}}}}"
    with web.client(base_url=gateway.admin_url, headers=gateway.admin_headers, timeout=60, trust_env=False) as client:
        for file in ("/nowhere", "/etc/passwd", pipe):
            for text in (spark, f"{{fn: {{function: {spark}}}}}"):
                body = f"subscriber: {text.replace('{FILE}', str(file))}\n"
                answer = client.put("/api/v1/triggers/s", content=body, headers={"content-type": "application/yaml"})
                assert answer.status_code == 403, answer.text
                assert [fault["message"] for fault in answer.json()["faults"]] == [
                    "a trigger that is applied may not use the sink `spark`"
                ]


@pytest.mark.spec("AD-01")
@pytest.mark.parametrize("token", ["two\nhushhush-lines", "hushhush\udcff"])
def test_a_token_that_can_not_be_sent_is_not_quoted(gateway: GatewayProcess, token: str) -> None:
    for command in (["status"], ["get", "triggers"]):
        done = tidegate(*command, "--admin", gateway.admin_url, env={"TIDEGATE_ADMIN_TOKEN": token})
        assert done.returncode == 1
        assert "can't be sent" in done.stderr
        assert "hushhush" not in done.stderr + done.stdout


def test_commands_send_no_token_where_another_user_says(gateway: GatewayProcess, tmp_path: Path) -> None:
    need(os.geteuid() == 0, "only a superuser can give a file to another user")
    (tmp_path / "gateway.json").write_text(json.dumps({"pid": 1, "admin": gateway.admin_url}))
    os.chown(tmp_path / "gateway.json", 65534, 65534)
    done = tidegate("status", "--data-dir", tmp_path)
    assert done.returncode == 1
    assert "belongs to another user" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["admin", "token", "--name", "a", "--days", "inf"],
        ["admin", "token", "--name", "a", "--days", "1e300"],
        ["login", "--admin", "http://[::1", "--issuer", "https://i.example", "--client-id", "a"],
        ["login", "--admin", "https://g.example", "--issuer", "https://[x", "--client-id", "a"],
        ["login", "--admin", "https://g.example:x", "--issuer", "https://i.example", "--client-id", "a"],
    ],
)
def test_a_users_mistake_is_no_internal_error(gateway: GatewayProcess, words: list[str]) -> None:
    done = tidegate(*words, "--data-dir", gateway.data_dir)
    assert done.returncode in (1, 2)
    assert "internal error" not in done.stderr
    assert done.stdout == ""


class Slow:
    """Operators whose issuer answers when the test says so."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.answered = anyio.Event()
        self.stopped = False

    async def stop(self) -> None:
        self.stopped = True


class Service(AdminService):
    """A service that starts what the test gives it."""

    def __init__(self, folder: Path) -> None:
        self.known: Mapping[str, Slow] = {name: Slow(name) for name in ("old", "new")}
        self.callers = AdminCallers(Tokens(folder, "own" * 20))
        self._operators = {}
        self._renewing = anyio.Lock()

    async def change(self, name: str, tasks: TaskGroup) -> None:
        self._operators = {name: SimpleNamespace()}
        await self._renew(tasks)

    async def _started(self, tasks: TaskGroup) -> Operators | None:
        (name,) = self._operators
        if name not in self.known:
            raise RuntimeError("the plugin has a bug")
        await self.known[name].answered.wait()
        return cast("Operators", self.known[name])

    @property
    def current(self) -> Any:
        return self.callers.operators

    async def asked(self) -> int:
        with pytest.raises(Problem) as refused:
            await self.callers.caller(Request("GET", "/status"))
        return refused.value.status


@pytest.mark.anyio
@pytest.mark.spec("AD-10")
async def test_the_last_reload_decides_who_the_operators_are(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    service = Service(tmp_path)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(service.change, "old", tasks)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(service.change, "new", tasks)
        await anyio.wait_all_tasks_blocked()
        assert await service.asked() == 503, "who was right a moment ago is asked to retry"
        service.known["new"].answered.set()
        service.known["old"].answered.set()
    assert service.current is service.known["new"]
    assert service.known["old"].stopped
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(service.change, "faulty", tasks)
    assert service.known["new"].stopped
    assert service.current is None
    assert await service.asked() == 401
    assert "none of them can call the admin API" in caplog.text
