"""What the ingress answers, the same on both server engines."""

from __future__ import annotations

import json
import socket
import sys
from typing import Any

import anyio
import httpx
import pytest

from gateway_core.contract.errors import NotDelivered, Overloaded, StartError, StorageError
from tests import web
from tests.twins import twins

pytestmark = pytest.mark.anyio

EVENT = {"ce-id": "1", "ce-type": "t", "ce-specversion": "1.0", "content-type": "text/plain"}


@pytest.fixture(params=twins("native", "hypercorn"))
def server(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def anyio_backend() -> Any:
    return "asyncio", {"use_uvloop": True}


def problem(response: httpx.Response) -> dict[str, Any]:
    assert response.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = response.json()
    assert found["type"] == "about:blank"
    assert found["status"] == response.status_code
    assert found["title"]
    return found


@pytest.mark.spec("DP-01", "DP-04", "BR-14")
async def test_binary_event_is_accepted(kit: Any, intake: Any, server: str) -> None:
    async with kit.source(intake, server=server) as source, web.async_client(verify=False) as client:
        for _ in range(3):
            response = await client.post(source.address, headers=EVENT, content=b"\x00\xffdata")
            assert (response.status_code, response.content) == (202, b"")
            assert response.headers["date"].endswith(" GMT")
        event = intake.events[0]
        assert event.attributes == {"id": "1", "type": "t", "specversion": "1.0", "datacontenttype": "text/plain"}
        assert event.data == b"\x00\xffdata"
        assert event.received_ns > 1_700_000_000 * 10**9
        assert len(intake.events) == 3


@pytest.mark.spec("DP-02")
async def test_structured_and_batch(kit: Any, intake: Any, server: str) -> None:
    async with kit.source(intake, server=server) as source, web.async_client(verify=False) as client:
        one = {"content-type": "application/cloudevents+json; charset=UTF-8"}
        many = {"content-type": "application/cloudevents-batch+json"}
        assert (await client.post(source.address, headers=one, content=b'{"id":"a"}')).status_code == 202
        assert (await client.post(source.address, headers=many, content=b'[{"id":"b"},{"id":"c"}]')).status_code == 202
        assert (await client.post(source.address, headers=many, content=b"[]")).status_code == 202
        assert intake.ids() == ["a", "b", "c"]


@pytest.mark.spec("DP-15")
async def test_duplicates_are_accepted(kit: Any, intake: Any, server: str) -> None:
    async with kit.source(intake, server=server) as source, web.async_client(verify=False) as client:
        codes = [(await client.post(source.address, headers=EVENT)).status_code for _ in range(2)]
        assert codes == [202, 202]
        assert intake.ids() == ["1", "1"]


@pytest.mark.spec("BR-15", "DP-27")
async def test_refused_events_are_answered_with_the_fault(kit: Any, intake: Any, server: str) -> None:
    async with kit.source(intake, server=server) as source, web.async_client(verify=False) as client:
        response = await client.post(source.address, content=b"{}")
        assert response.status_code == 400
        found = problem(response)
        assert found["attribute"] == "id"
        assert found["rule"] == "CloudEvents 1.0.2 spec.md"
        assert found["detail"] == "id is missing"
        assert found["title"] == "Not an event"
        assert [e.attribute for e in intake.refused] == ["id"]
        assert (await client.post(source.address, headers=EVENT)).status_code == 202


@pytest.mark.spec("DP-27")
async def test_overload_and_storage_faults(kit: Any, intake: Any, server: str) -> None:
    async with kit.source(intake, server=server) as source, web.async_client(verify=False) as client:
        intake.result = Overloaded("the log is full", retry_after_s=2.2)
        response = await client.post(source.address, headers=EVENT)
        assert (response.status_code, response.headers["retry-after"]) == (503, "3")
        assert problem(response)["detail"] == "the log is full"
        intake.result = StorageError("disk full")
        response = await client.post(source.address, headers=EVENT)
        assert response.status_code == 503
        assert problem(response)["detail"] == "disk full"
        assert intake.refused == []


@pytest.mark.spec("SAFE-41")
async def test_a_final_refusal_of_a_bridges_sink_is_no_503(kit: Any, intake: Any, server: str) -> None:
    async with kit.source(intake, server=server) as source, web.async_client(verify=False) as client:
        intake.result = NotDelivered("not delivered: 400 Bad Request", 400)
        response = await client.post(source.address, headers=EVENT)
        assert response.status_code == 422
        assert "retry-after" not in response.headers
        found = problem(response)
        assert (found["status"], found["sinkStatus"], found["title"]) == (422, 400, "Not delivered")
        assert "400 Bad Request" in found["detail"]


async def test_bugs_are_answered_without_details(
    kit: Any, intake: Any, server: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with kit.source(intake, server=server) as source, web.async_client(verify=False) as client:
        for _ in range(2):
            response = await client.post(source.address, headers={**EVENT, "ce-type": "explode"})
            assert response.status_code == 500
            assert "secret" not in json.dumps(problem(response))
        assert (await client.post(source.address, headers=EVENT)).status_code == 202
    assert len([r for r in caplog.records if r.exc_info]) <= 1  # once for each kind, in the process


@pytest.mark.spec("DP-05")
async def test_options_names_post_and_queues_nothing(kit: Any, intake: Any, server: str) -> None:
    async with kit.source(intake, server=server) as source, web.async_client(verify=False) as client:
        response = await client.options(source.address, headers=EVENT)
        assert (response.status_code, response.content) == (200, b"")
        assert response.headers["allow"] == "POST, OPTIONS"
        assert "webhook-allowed-origin" not in response.headers
        response = await client.options(source.address, headers={"WebHook-Request-Origin": "eventemitter.example.com"})
        assert "webhook-allowed-origin" not in response.headers
        assert intake.events == []


@pytest.mark.spec("BR-13")
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH"])
async def test_other_methods(kit: Any, intake: Any, server: str, method: str) -> None:
    async with kit.source(intake, server=server) as source, web.async_client(verify=False) as client:
        response = await client.request(method, source.address, headers=EVENT, content=b"data")
        assert response.status_code == 405
        assert response.headers["allow"] == "POST, OPTIONS"
        if method == "HEAD":
            assert response.content == b""
        else:
            assert method in problem(response)["detail"]
        assert (await client.post(source.address, headers=EVENT)).status_code == 202
        assert len(intake.events) == 1


@pytest.mark.spec("DP-27")
async def test_paths_are_exact(kit: Any, intake: Any, server: str) -> None:
    async with kit.source(intake, server=server, path="/a/b") as source, web.async_client(verify=False) as client:
        assert source.address.endswith("/a/b")
        base = source.address.removesuffix("/a/b")
        for path in ("/", "/a", "/a/b/", "/a/b/c", "/A/b", "//a/b"):
            for method in ("POST", "GET", "OPTIONS"):
                response = await client.request(method, base + path, headers=EVENT)
                assert (response.status_code, problem(response)["title"]) == (404, "Not Found"), path
        assert (await client.post(base + "/a/b?x=/a", headers=EVENT)).status_code == 202
        assert len(intake.events) == 1


@pytest.mark.spec("DP-27")
async def test_large_bodies(kit: Any, intake: Any, server: str) -> None:
    limits = {"max_body_bytes": 100_000}
    async with kit.source(intake, server=server, limits=limits) as source, web.async_client(verify=False) as client:
        whole = bytes(range(256)) * 256  # 64 KiB, which every ingress must take
        assert (await client.post(source.address, headers=EVENT, content=whole)).status_code == 202
        assert intake.events[0].data == whole
        response = await client.post(source.address, headers=EVENT, content=b"x" * 100_001)
        assert response.status_code == 413
        assert "100000" in problem(response)["detail"]
        assert (await client.post(source.address, headers=EVENT)).status_code == 202
        assert len(intake.events) == 2


async def test_chunked_requests(kit: Any, intake: Any, server: str) -> None:
    async def parts() -> Any:
        for part in (b"one", b"two", b"three"):
            yield part

    async with kit.source(intake, server=server) as source, web.async_client(verify=False) as client:
        assert (await client.post(source.address, headers=EVENT, content=parts())).status_code == 202
        assert intake.events[0].data == b"onetwothree"


async def test_too_many_headers(kit: Any, intake: Any, server: str) -> None:
    limits = {"max_headers": 32}
    async with kit.source(intake, server=server, limits=limits) as source, web.async_client(verify=False) as client:
        response = await client.post(source.address, headers={**EVENT, **{f"x-{n}": "1" for n in range(32)}})
        assert response.status_code == 431
        assert intake.events == []


async def test_stop_answers_what_was_taken(kit: Any, intake: Any, server: str) -> None:
    intake.hold = True
    codes: list[int] = []
    source = kit.build("source", {"listen": "127.0.0.1:0", "server": server})

    async def post(client: httpx.AsyncClient) -> None:
        codes.append((await client.post(source.address, headers=EVENT)).status_code)

    async with anyio.create_task_group() as tasks, web.async_client(verify=False) as client:
        await source.start(intake, tasks)
        tasks.start_soon(post, client)
        await kit.until(lambda: len(intake.held) == 1)
        stopped = anyio.Event()

        async def stop() -> None:
            await source.stop()
            stopped.set()

        tasks.start_soon(stop)
        await anyio.sleep(0.05)
        assert not stopped.is_set()
        intake.held[0](None)
        await kit.until(lambda: codes == [202])
        await kit.until(stopped.is_set)
        with pytest.raises(httpx.ConnectError):
            await client.post(source.address, headers=EVENT)


async def test_sources_share_an_address_by_path(kit: Any, intake: Any, server: str) -> None:
    other = type(intake)()
    async with kit.source(intake, server=server) as free:
        listen = f"127.0.0.1:{httpx.URL(free.address).port}"  # free again below
    options = {"listen": listen, "server": server}
    async with web.async_client(verify=False) as client, kit.source(intake, owner="first", path="/a", **options) as a:
        async with kit.source(other, owner="second", path="/b", **options) as b:
            assert (await client.post(a.address, headers=EVENT)).status_code == 202
            assert (await client.post(b.address, headers=EVENT)).status_code == 202
            assert (len(intake.events), len(other.events)) == (1, 1)
            third = kit.build("source", {**options, "path": "/b"}, owner="third")
            with pytest.raises(StartError, match=r"third: .* already serves the path '/b' for second"):
                await third.start(intake, None)
            fourth = kit.build("source", {**options, "path": "/c", "limits": {"max_headers": 9}}, owner="fourth")
            with pytest.raises(StartError, match="shared with first"):
                await fourth.start(intake, None)
        assert (await client.post(b.address, headers=EVENT)).status_code == 404
        assert (await client.post(a.address, headers=EVENT)).status_code == 202


async def test_port_taken(kit: Any, intake: Any, server: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        source = kit.build("source", {"listen": listen, "server": server})
        with pytest.raises(StartError, match=f"here: can't listen on {listen}"):
            await source.start(intake, None)


@pytest.mark.usefixtures("processes")
async def test_workers_share_a_port(kit: Any, intake: Any, server: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        listen = f"127.0.0.1:{free.getsockname()[1]}"
    first = kit.build("source", {"listen": listen, "server": server}, workers=2)
    async with anyio.create_task_group() as tasks:
        await first.start(intake, tasks)
        code = (
            "import socket, sys; s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1);"
            f"s.bind(('127.0.0.1', {listen.split(':')[1]})); s.listen(); print('bound')"
        )
        done = await anyio.run_process([sys.executable, "-c", code])
        assert done.stdout == b"bound\n"
        await first.stop()
        tasks.cancel_scope.cancel()
