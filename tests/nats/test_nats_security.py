"""Credentials, TLS and permissions, against a real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
import trustme
from gateway_dev import servers
from gateway_nats.config import NatsSinkConfig
from gateway_testing.suites import MemoryIntake
from gateway_testing.suites.kit import until
from gateway_testing.suites.sink import attempt, numbered, running
from pydantic import ValidationError

from gateway_core.contract.errors import MissingExtra, StartError
from tests.command_line import tidegate
from tests.nats.conftest import NatsKit

pytestmark = [pytest.mark.anyio, pytest.mark.spec("NT-09")]
PASSWORD = "never-shown-d41d8c"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def secure(processes: None, tmp_path: Path, authority: trustme.CA) -> Iterator[servers.Server]:
    """Wants a password, and offers TLS beside plain connections. One user may not publish."""
    certificate = authority.issue_cert("localhost")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "server.pem")
    certificate.private_key_pem.write_to_path(tmp_path / "server.key")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    tls = servers.Tls(tmp_path / "server.pem", tmp_path / "server.key")
    with servers.nats(tmp_path / "nats", users={"gateway": PASSWORD}, tls=tls) as server:
        yield server


@pytest.fixture
def restricted(processes: None, tmp_path: Path) -> Iterator[servers.Server]:
    user = f'{{ user: gateway, password: "{PASSWORD}", permissions: {{ publish: ["$JS.API.>", "ok.>"] }} }}'
    with servers.nats(tmp_path / "restricted", settings=f"authorization {{ users: [{user}] }}") as server:
        yield server


def options(url: str, **more: Any) -> dict[str, Any]:
    return {"servers": url, "user": "gateway", "password": PASSWORD, "subject": "ok.in", "jetstream": False, **more}


async def fault(component: Any) -> str:
    """Why it does not start."""
    async with anyio.create_task_group() as tasks:
        with pytest.raises(StartError) as raised:
            await component.start(*([MemoryIntake(), tasks] if hasattr(component, "read") else [tasks]))
        await component.stop()
    return str(raised.value)


async def test_wrong_credentials_are_a_fault_without_the_password(secure: servers.Server, tmp_path: Path) -> None:
    kit = NatsKit(tmp_path, secure)
    wrong = f"wrong-{PASSWORD}"
    for component in (
        kit.sink("nats", options(secure.url, password=wrong)),
        kit.source("nats", options(secure.url, password=wrong)),
        kit.channel("jetstream", {"servers": secure.url, "token": wrong}),
        kit.sink("nats", {"servers": secure.url, "subject": "ok.in"}),
    ):
        said = await fault(component)
        assert "the server refuses the credentials" in said
        assert PASSWORD not in said


async def test_credentials_that_are_revoked_and_come_back(secure: servers.Server, tmp_path: Path) -> None:
    sink = NatsKit(tmp_path, secure).sink("nats", options(secure.url))
    async with running(sink):
        assert (await attempt(sink, numbered(1)[0])).delivered
        await anyio.to_thread.run_sync(secure.set_users, {"other": "x"})
        link = sink._link  # type: ignore[attr-defined]
        await until(lambda: "refuses the credentials" in (link.error or ""), "the refusal")
        outcome = await attempt(sink, numbered(1)[0], 0.3)
        assert (outcome.delivered, outcome.retry) == (False, True)
        await anyio.to_thread.run_sync(secure.set_users, {"gateway": PASSWORD})
        assert (await attempt(sink, numbered(1)[0])).delivered


async def test_tls(secure: servers.Server, tmp_path: Path) -> None:
    kit = NatsKit(tmp_path, secure)
    trusted = {"ca_file": str(tmp_path / "ca.pem")}
    for tls in (trusted, {"verify": False}):
        sink = kit.sink("nats", options(secure.tls_url, tls=tls))
        async with running(sink):
            assert (await attempt(sink, numbered(1)[0])).delivered
    assert "certificate is not accepted" in await fault(kit.sink("nats", options(secure.tls_url)))
    ip = f"tls://127.0.0.1:{secure.port}"
    assert "certificate is not accepted" in await fault(kit.sink("nats", options(ip, tls=trusted)))
    assert "can't be used" in await fault(kit.sink("nats", options(secure.tls_url, tls={"ca_file": "none.pem"})))


async def test_tls_can_not_be_stripped(nats_server: servers.Server, tmp_path: Path) -> None:
    """A server, or somebody in between, says that it has no TLS: it does not get the password."""
    for url, tls in ((nats_server.url, {}), (nats_server.url.replace("nats:", "tls:"), None)):
        sink = NatsKit(tmp_path, nats_server).sink("nats", options(url, tls=tls))
        assert "does not offer TLS" in await fault(sink)


async def test_a_subject_that_is_not_permitted_is_named_and_retried(restricted: servers.Server, tmp_path: Path) -> None:
    kit = NatsKit(tmp_path, restricted)
    sink = kit.sink("nats", options(restricted.url, subject="forbidden.in", jetstream=True))
    async with running(sink):
        outcome = await attempt(sink, numbered(1)[0])
        assert (outcome.delivered, outcome.retry) == (False, True)
        assert 'permissions violation for publish to "forbidden.in"' in outcome.reason


def test_keys_need_a_package_that_is_named(nats_server: servers.Server, tmp_path: Path) -> None:
    for name in ("nkey_file", "credentials_file"):
        with pytest.raises(MissingExtra, match="pip install nkeys"):
            NatsKit(tmp_path, nats_server).sink("nats", {"subject": "a", name: "seed"})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"user": "a"}, "belong together"),
        ({"user": "a", "password": "b", "token": "c"}, "set one of"),
        ({"servers": "nats://a:b@127.0.0.1"}, "has credentials"),
        ({"servers": "http://127.0.0.1"}, "must be nats://HOST:PORT"),
        ({"url": "nats://127.0.0.1:4222"}, "must be nats://HOST:PORT/SUBJECT"),
    ],
)
def test_a_config_that_can_not_be_meant(given: dict[str, str], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        NatsSinkConfig.model_validate({"subject": "a", **given})


def test_check_tries_the_connection(secure: servers.Server, tmp_path: Path) -> None:
    file = tmp_path / "tidegate.yaml"
    text = "brokers: {default: {ingress: [http: {listen: '127.0.0.1:0'}]}}\ntriggers: {a: {subscriber: {nats: %s}}}\n"
    for password, code, says in ((PASSWORD, 0, "NATS at"), ("wrong", 1, "refuses the credentials")):
        file.write_text(text % str(options(secure.url, password=password)).replace("False", "false"))
        done = tidegate("check", "--connect", file)
        said = " ".join((done.stdout + done.stderr).split())
        assert (done.returncode, says in said) == (code, True), said
        assert PASSWORD not in said
        assert "core NATS delivers at most once" in said
