"""Connections to Redis: addresses, users, TLS, and what `tidegate check --connect` says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
import redis
import trustme
from gateway_dev import servers
from gateway_redis.config import RedisSinkConfig, RedisSourceConfig
from gateway_testing.suites import Kit, MemoryIntake
from gateway_testing.suites.kit import until
from gateway_transport.connection import leaf
from pydantic import ValidationError

from gateway_core.contract.errors import StartError
from gateway_core.contract.event import Event
from tests.command_line import tidegate
from tests.redis.test_redis_source import entry

EVENT = Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, b"1")
SECRET = "s3cr3t-of-mine"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, processes: None) -> Iterator[servers.Server]:
    """A server with a user `me`, and a TLS listener that wants client certificates."""
    folder = tmp_path_factory.mktemp("guarded")
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(folder / "ca.pem"))
    issued = ca.issue_cert("localhost")
    issued.private_key_pem.write_to_path(str(folder / "key.pem"))
    for n, blob in enumerate(issued.cert_chain_pems):
        blob.write_to_path(str(folder / "cert.pem"), append=n > 0)
    tls = servers.Tls(folder / "cert.pem", folder / "key.pem", folder / "ca.pem")
    with servers.redis(folder / "server", users={"me": SECRET, "root": "root"}, tls=tls) as server:
        yield server


def root(server: servers.Server) -> Any:
    return redis.Redis(port=server.port, username="root", password="root", protocol=2)


async def outcome_of(sink: Any) -> Any:
    outcomes: list[Any] = []
    async with anyio.create_task_group() as tasks:
        await sink.start(tasks)
        sink.send(EVENT, 30, outcomes.append)
        await until(lambda: bool(outcomes), "the outcome")
        await sink.stop()
        tasks.cancel_scope.cancel()
    return outcomes[0]


# -- addresses --------------------------------------------------------------------------------------------------------


def test_a_url_is_taken_apart() -> None:
    config = RedisSinkConfig.model_validate({"url": "rediss://me:p%40ss@h:1/3/orders.{type}"})
    assert (config.servers, config.db, config.stream) == (["h:1"], 3, "orders.{type}")
    assert (config.username, config.password, config.tls is not None) == ("me", "p@ss", True)
    assert "p@ss" not in config.where + config.end
    assert config.where == "rediss://h:1/3"
    source = RedisSourceConfig.model_validate({"url": "redis://[::1]/2", "stream": "a,b"})
    assert (source.servers, source.db, source.streams) == (["[::1]:6379"], 2, ["a", "b"])


@pytest.mark.parametrize(
    "options",
    [
        {"url": "redis://h"},
        {"url": "http://h/s"},
        {"url": "redis://h/x/s"},
        {"url": "redis://h/s?x=1"},
        {"stream": ""},
        {"stream": "a b"},
        {"stream": "s", "servers": "h"},
        {"stream": "s", "servers": "h:1,h:2"},
        {"stream": "s", "cluster": True, "db": 1},
        {"stream": "s", "username": "me"},
        {"stream": "s", "start": "yesterday"},
        {"stream": "s", "cluster": True, "sentinel": {"service": "m", "nodes": "h:1"}},
        {"stream": "s", "servers": "h:1", "sentinel": {"service": "m", "nodes": "h:1"}},
    ],
)
def test_what_can_not_be_meant_is_a_fault(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        RedisSourceConfig.model_validate(options)


# -- users and TLS ----------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.spec("RD-15")
async def test_users_and_tls(guarded: servers.Server, tmp_path: Path) -> None:
    folder = guarded.folder.parent
    tls = {
        "ca_file": str(folder / "ca.pem"),
        "cert_file": str(folder / "cert.pem"),
        "key_file": str(folder / "key.pem"),
    }
    for options in (
        {"url": f"redis://me:{SECRET}@127.0.0.1:{guarded.port}/s"},
        {"servers": f"localhost:{guarded.tls_port}", "username": "me", "password": SECRET, "tls": tls, "stream": "s"},
    ):
        assert (await outcome_of(Kit(tmp_path).sink("redis", options))).delivered
    for wrong in ({"ca_file": tls["ca_file"]}, {}):
        options = {"servers": f"localhost:{guarded.tls_port}", "username": "me", "password": SECRET, "stream": "s"}
        outcome = await outcome_of(Kit(tmp_path).sink("redis", {**options, "tls": wrong}))
        assert (outcome.delivered, outcome.retry) == (False, True)


@pytest.mark.anyio
@pytest.mark.spec("RD-10")
@pytest.mark.parametrize("login", ["", "me:wrong@"])
async def test_rejected_credentials_stop_the_start(guarded: servers.Server, tmp_path: Path, login: str) -> None:
    options = {"url": f"redis://{login}127.0.0.1:{guarded.port}/s"}
    kit = Kit(tmp_path)

    async def start_sink() -> None:
        async with anyio.create_task_group() as tasks:
            await kit.sink("redis", options).start(tasks)

    async def start_source() -> None:
        async with anyio.create_task_group() as tasks:
            await kit.source("redis", options).start(MemoryIntake(), tasks)

    for start in (start_sink, start_source):
        with pytest.raises(BaseException) as raised:
            await start()
        error = leaf(raised.value)
        assert isinstance(error, StartError)
        assert ("rejects the user name or password" if login else "wants a password") in str(error)


@pytest.mark.anyio
@pytest.mark.spec("RD-10")
async def test_credentials_that_are_revoked_and_given_back(own_redis: servers.Server, tmp_path: Path) -> None:
    own_redis.set_users({"me": SECRET, "root": "root"})
    source: Any = Kit(tmp_path).source(
        "redis", {"url": f"redis://me:{SECRET}@127.0.0.1:{own_redis.port}/s", "start": "0"}
    )
    intake = MemoryIntake()
    async with anyio.create_task_group() as tasks:
        await source.start(intake, tasks)
        own_redis.set_users({"root": "root"})
        await until(lambda: "user name or password" in str(source.info()["error"]), "the loss to be seen")
        assert SECRET not in str(source.info())
        with root(own_redis) as admin:
            admin.execute_command("XADD", "s", "*", *entry("1"))
        own_redis.set_users({"me": SECRET, "root": "root"})
        await until(lambda: len(intake.events) == 1, "the event")
        await source.stop()
        tasks.cancel_scope.cancel()


# -- check --connect --------------------------------------------------------------------------------------------------

CONFIG = """
secrets: {{mine: {{env: MINE}}}}
bridges:
  b:
    source: {{redis: {{servers: "127.0.0.1:{port}", username: {user}, password: "${{secret:mine}}", stream: {stream}}}}}
    sink: stdout
    dead_letter: stdout
"""


def reasons(
    folder: Path, port: int, *, user: str = "me", stream: str = "s", password: str = SECRET
) -> tuple[int, list[str]]:
    file = folder / "c.yaml"
    file.write_text(CONFIG.format(port=port, user=user, stream=stream))
    ran = tidegate("check", file, "--connect", "--json", env={"MINE": password, "TIDEGATE_ADMIN": "off"})
    assert SECRET not in ran.stdout + ran.stderr
    probes = json.loads(ran.stdout)["probes"]
    return ran.returncode, [probe["reason"] for probe in probes if probe["path"] == "bridges.b.source"]


@pytest.mark.spec("RD-10")
def test_check_connect_says_what_is_wrong(guarded: servers.Server, tmp_path: Path) -> None:
    with root(guarded) as admin:
        admin.set("text", "no stream")
        admin.execute_command("ACL", "SETUSER", "weak", "on", f">{SECRET}", "~other", "+@all")
    assert reasons(tmp_path, guarded.port) == (0, [""])
    code, (reason,) = reasons(tmp_path, guarded.port, password="wrong")
    assert (code, "rejects the user name or password" in reason) == (1, True)
    code, (reason,) = reasons(tmp_path, guarded.port, user="weak")
    assert (code, "the stream s: the user has no permission" in reason) == (1, True)
    assert reasons(tmp_path, guarded.port, stream="text") == (1, ["the key text is not a stream"])
    with servers.redis(tmp_path / "gone") as gone:
        port = gone.port
    code, (reason,) = reasons(tmp_path, port)
    assert (code, "Connect call failed" in reason) == (1, True), reason


@pytest.mark.spec("RD-17")
def test_check_connect_warns_of_a_server_that_forgets(own_redis: servers.Server, tmp_path: Path) -> None:
    own_redis.set_users({"me": SECRET, "root": "root"})
    assert reasons(tmp_path, own_redis.port) == (0, [""])
    with root(own_redis) as admin:
        admin.config_set("appendonly", "no")
    code, found = reasons(tmp_path, own_redis.port)
    assert (code, len(found)) == (0, 2)
    assert "appendonly is off" in found[1]


@pytest.mark.spec("RD-10")
@pytest.mark.anyio
async def test_a_user_without_the_lesser_permissions_still_reads(
    guarded: servers.Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with root(guarded) as admin:
        allowed = ["+xreadgroup", "+xack", "+xgroup|create" if guarded.version >= "7" else "+xgroup"]
        admin.execute_command("ACL", "SETUSER", "little", "on", f">{SECRET}", "~little*", "+auth", *allowed)
        admin.execute_command("XADD", "little", "*", *entry("1"))
        url = f"redis://little:{SECRET}@127.0.0.1:{guarded.port}/little"
        source: Any = Kit(tmp_path).source("redis", {"url": url, "start": "0", "group": "g"})
        intake = MemoryIntake()
        async with anyio.create_task_group() as tasks:
            await source.start(intake, tasks)
            await until(lambda: len(intake.events) == 1, "the event")
            await until(lambda: admin.xpending("little", "g")["pending"] == 0, "the acknowledgement")
            assert source.info()["error"] is None
            await source.stop()
            tasks.cancel_scope.cancel()
    assert "has no permission" in caplog.text
