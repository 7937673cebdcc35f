"""The servers that tests and people try transports with: they start, are killed, and come back with their data."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import pytest
import trustme
from gateway_dev import servers

from gateway_core.contract.errors import StartError
from tests.dev.clients import CLIENTS
from tests.processes import descendants, gone

pytestmark = pytest.mark.usefixtures("processes")
IN_AREA = {"mqtt": pytest.mark.area(name="dev"), "nats": pytest.mark.area(name="dev"), "rabbitmq": pytest.mark.full}
NAMES = [pytest.param(name, marks=[IN_AREA[name]] if name in IN_AREA else []) for name in sorted(servers.ALL)]


@pytest.mark.spec("DEV-03")
@pytest.mark.parametrize("name", NAMES)
def test_a_killed_server_comes_back_on_its_port_with_its_data(name: str, tmp_path: Path) -> None:
    client = CLIENTS[name]
    with servers.ALL[name](tmp_path, users={"anna": "pa:ss/w", "berta": "x"}) as server:
        port, pid = server.port, server.pid
        assert not client.connects(server, "anna", "wrong")
        client.put(server, "anna", "a text")
        server.kill()
        assert (server.alive, server.pid) == (False, None)
        server.start()
        assert server.port == port
        assert server.pid != pid
        assert client.get(server, "berta") == "a text"
        server.set_users({"berta": "new", "carla": "x"})
        seen = {user: client.connects(server, *user) for user in (("anna", "pa:ss/w"), ("berta", "x"))}
        assert not any(seen.values()), seen
        assert client.get(server, "carla") == client.get(server, "berta") == "a text"
        server.stop()
        assert not server.alive


@pytest.mark.spec("DEV-03")
@pytest.mark.parametrize("name", NAMES)
def test_two_run_side_by_side_and_leave_nothing(name: str, tmp_path: Path) -> None:
    """RabbitMQ's Erlang has a process of its own that knows all nodes; it ends as well."""
    with servers.ALL[name](tmp_path / "a") as one, servers.ALL[name](tmp_path / "b") as two:
        assert one.port != two.port
        pids = {pid for server in (one, two) if (pid := server.pid)}
        assert len(pids) == 2
        pids |= {below for pid in list(pids) for below in descendants(pid)}
        names = {pid: Path(f"/proc/{pid}/comm") for pid in pids}
        assert names
    gone(pids)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> tuple[servers.Tls, ssl.SSLContext]:
    folder = tmp_path_factory.mktemp("tls")
    ca = trustme.CA()
    issued = ca.issue_cert("localhost")
    issued.private_key_pem.write_to_path(folder / "key.pem")
    for pem in issued.cert_chain_pems:
        pem.write_to_path(folder / "certificate.pem", append=True)
    context = ssl.create_default_context()
    ca.configure_trust(context)
    return servers.Tls(folder / "certificate.pem", folder / "key.pem"), context


@pytest.mark.parametrize("name", ["mqtt", "redis", pytest.param("rabbitmq", marks=pytest.mark.full)])
def test_tls(name: str, tmp_path: Path, certificates: tuple[servers.Tls, ssl.SSLContext]) -> None:
    tls, context = certificates
    with (
        servers.ALL[name](tmp_path, tls=tls) as server,
        socket.create_connection(("127.0.0.1", server.tls_port), 60) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secured,
    ):
        assert secured.version()


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(StartError, match=f"can't start Redis: port {port} of 127.0.0.1 is in use"):
            servers.redis(tmp_path, port).start()


def test_a_server_that_dies_says_what_its_log_says(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"(?s)Redis ended early \(code 1\)\nthe end of .*no-such-setting"):
        servers.redis(tmp_path, settings="no-such-setting 1").start()
