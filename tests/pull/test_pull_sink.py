"""What subscribers that fetch get, and what becomes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx
import pytest
from gateway_testing.suites import Kit, SinkSuite
from gateway_testing.suites.kit import until
from gateway_testing.suites.remote import Remote
from gateway_testing.suites.sink import Attempts, numbered

from gateway_core.contract.errors import StartError
from gateway_core.contract.interfaces import Outcome, Sink
from tests.pull.puller import Puller, fetch, settle, sink

pytestmark = pytest.mark.anyio


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return Kit(tmp_path)


@pytest.mark.spec("PL-01")
class TestPullSink(SinkSuite):
    def remote(self, kit: Kit) -> Remote:
        return Puller()

    def build(self, kit: Kit, remote: Remote) -> Sink:
        assert isinstance(remote, Puller)
        return kit.sink("pull", {"listen": f"127.0.0.1:{remote.port}", "path": "/orders"})


def leases(found: list[dict[str, Any]]) -> list[str]:
    return [entry["lease"] for entry in found]


@pytest.mark.spec("PL-01")
async def test_a_fetched_event_is_delivered_once_it_is_acknowledged(kit: Kit) -> None:
    async with sink(kit) as (made, client):
        attempts = Attempts()
        for event in numbered(5):
            attempts.send(made, event)
        found = await fetch(client, 3)
        assert [entry["event"]["id"] for entry in found] == ["n0", "n1", "n2"]
        assert found[0]["event"]["data"] == "data 0"
        assert [entry["delivery"] for entry in found] == [1, 1, 1]
        assert (await client.get(made.address)).json() == {"available": 2, "leased": 3}
        assert not any(attempts.outcomes)
        assert await settle(client, "ack", [*leases(found)[:2], "nonsense", "a.b"]) == {
            "done": leases(found)[:2],
            "gone": ["nonsense", "a.b"],
        }
        assert [bool(o) for o in attempts.outcomes] == [True, True, False, False, False]
        assert (await settle(client, "ack", leases(found)))["gone"] == leases(found)[:2]
        (last,) = await fetch(client, 1)
        await settle(client, "ack", [*leases(await fetch(client, 1)), last["lease"]])
        assert all(o.delivered for o in await attempts.ended())
        assert (await client.get(made.address)).json() == {"available": 0, "leased": 0}


@pytest.mark.spec("PL-01")
async def test_a_lease_ends_is_extended_or_released(kit: Kit) -> None:
    async with sink(kit, lease_s=0.3) as (made, client):
        attempts = Attempts()
        for event in numbered(4):
            attempts.send(made, event)
        ends, extended, released, refused = leases(await fetch(client))
        await settle(client, "extend", [extended], lease_s=100)
        await settle(client, "release", [released], reason="try\nlater", retry_after_s=7)
        await settle(client, "release", [refused], reason="no", retry=False)
        await until(lambda: bool(attempts.outcomes[0]), "the lease to end")
        assert (await settle(client, "ack", [ends, extended])) == {"done": [extended], "gone": [ends]}
        over, done, later, never = await attempts.ended()
        assert (over.delivered, over.retry, over.code) == (False, True, 408)
        assert done.delivered
        assert (later.retry, later.code, later.reason, later.retry_after_s) == (True, 503, "try later", 7)
        assert (never.retry, never.code, never.reason) == (False, 422, "no")
        for event in numbered(1):  # the same event again
            attempts.send(made, event)
        assert (await fetch(client))[0]["delivery"] >= 2


@pytest.mark.spec("PL-01")
async def test_a_fetch_waits_for_the_first_event_and_a_subscriber_that_left_gets_none(kit: Kit) -> None:
    async with sink(kit) as (made, client):
        assert await fetch(client, wait_s=0) == []
        found: list[list[dict[str, Any]]] = []

        async def one() -> None:
            found.append(await fetch(client, 1))

        attempts = Attempts()
        async with anyio.create_task_group() as tasks:
            with pytest.raises(httpx.ReadTimeout):  # this one leaves
                await client.post("receive", json={"wait_s": 20}, timeout=0.1)
            for _ in range(3):
                tasks.start_soon(one)
            await until(lambda: len(made._endpoint._waiters) == 3, "three to wait")
            for event in numbered(3):
                attempts.send(made, event)
        assert sorted(entry["event"]["id"] for (entry,) in found) == ["n0", "n1", "n2"]


@pytest.mark.slow
@pytest.mark.spec("PL-06")
async def test_strangers_get_problems(kit: Kit) -> None:
    async with sink(kit, token="s3cret", origins=["https://app.example.com"]) as (_, client):
        mine = {"authorization": "Bearer s3cret"}
        page = {**mine, "origin": "https://app.example.com"}
        tries: list[tuple[int, str, str, dict[str, str], Any]] = [
            (404, "POST", "nothing", mine, {}),
            (404, "POST", "ack/more", mine, {}),
            (401, "POST", "receive", {}, {}),
            (401, "POST", "receive", {"authorization": "Bearer other"}, {}),
            (401, "GET", "events", {}, None),
            (403, "POST", "receive", {**mine, "origin": "https://evil.example.com"}, {}),
            (405, "GET", "receive", mine, None),
            (405, "POST", "events", mine, {}),
            (400, "POST", "receive", mine, {"max": 0}),
            (400, "POST", "receive", mine, {"max": "1"}),
            (400, "POST", "receive", mine, {"wait_s": 1e9}),
            (400, "POST", "receive", mine, {"more": 1}),
            (400, "POST", "ack", mine, {}),
            (400, "POST", "ack", mine, []),
            (400, "POST", "extend", mine, {"leases": ["a"], "lease_s": -1}),
            (400, "POST", "release", mine, {"leases": [], "retry_after_s": 1e99}),
            (413, "POST", "ack", mine, {"leases": ["x" * 1_100_000]}),
        ]
        for status, method, word, headers, body in tries:
            response = await client.request(method, word, headers=headers, json=body)
            assert (response.status_code, response.json()["status"]) == (status, status), (method, word, body)
            assert response.headers["content-type"] == "application/problem+json"
        response = await client.post("receive", headers=page, content=b"")
        assert response.status_code == 200
        assert response.headers["access-control-allow-origin"] == page["origin"]
        preflight = await client.options("ack", headers={"origin": page["origin"]})
        assert preflight.status_code == 204
        assert "authorization" in preflight.headers["access-control-allow-headers"]


@pytest.mark.spec("PL-02")
async def test_a_release_before_a_stop_ends_what_nobody_fetched_and_no_attempt(kit: Kit) -> None:
    async with sink(kit) as (made, client):
        attempts = Attempts()
        for event in numbered(3):
            attempts.send(made, event)
        (first,) = await fetch(client, 1)
        made.release()
        assert [o[0].local for o in attempts.outcomes if o] == [True, True]
        assert (await client.post("receive", json={})).status_code == 503
        assert (await settle(client, "ack", [first["lease"]]))["done"]
    found: list[Outcome] = await attempts.ended()
    assert [o.delivered for o in found] == [True, False, False]


async def test_sinks_share_an_address_and_a_successor_knows_the_old_leases(kit: Kit) -> None:
    from dataclasses import replace

    from tests.websocket.rig import free_port

    listen = f"127.0.0.1:{free_port()}"
    async with sink(kit, listen=listen) as (old, client):
        other: Any = kit.sink("pull", {"listen": listen, "path": "/orders"})
        other._endpoint.owner = "other"
        async with anyio.create_task_group() as tasks:
            with pytest.raises(StartError, match="already serves"):
                await other.start(tasks)
            attempts = Attempts()
            attempts.send(old, numbered(1)[0])
            (entry,) = await fetch(client)
            new: Any = kit.sink("pull", {"listen": listen, "path": "/orders", "lease_s": 5})
            await new.start(tasks)
            attempts.send(new, numbered(1, 1)[0])
            assert [e["event"]["id"] for e in await fetch(client)] == ["n1"]
            assert (await settle(client, "ack", [entry["lease"]]))["done"]
            assert attempts.outcomes[0][0].delivered
            await old.stop()
            assert await fetch(client, wait_s=0) == []
            await new.stop()
            several: Any = kit.sink("pull", {"listen": listen})
            with pytest.raises(StartError, match="one worker"):
                type(several)(several._options, replace(several._context, workers=2))
            tasks.cancel_scope.cancel()


# -- streams ----------------------------------------------------------------------------------------------------------


class Reader:
    """Reads a stream of server-sent events as WHATWG HTML section 9.2.6 says."""

    def __init__(self, response: httpx.Response) -> None:
        self._lines = response.aiter_lines()

    async def next(self) -> tuple[str, dict[str, Any]] | None:
        """Id and data of the next event; None at the end."""
        id, data = "", []
        async for line in self._lines:
            name, _, value = line.partition(": ")
            if name == "id":
                id = value
            elif name == "data":
                data.append(value)
            elif line == "" and data:
                return id, json.loads("\n".join(data))
        return None


@pytest.mark.spec("PL-05")
async def test_the_last_event_id_acknowledges_it_and_all_before(kit: Kit) -> None:
    async with sink(kit) as (made, client):
        attempts = Attempts()
        for event in numbered(4):
            attempts.send(made, event)
        async with client.stream("GET", "events") as response:
            assert response.headers["content-type"] == "text/event-stream"
            reader = Reader(response)
            got = [await reader.next() for _ in range(4)]
            assert [g[1]["id"] for g in got if g] == ["n0", "n1", "n2", "n3"]
            assert not any(attempts.outcomes)
            assert got[0] is not None
            assert got[2] is not None
            await settle(client, "ack", [got[0][0]])  # one by one works, too
            assert [bool(o) for o in attempts.outcomes] == [True, False, False, False]
        async with client.stream("GET", "events", headers={"last-event-id": got[2][0]}) as response:
            assert response.status_code == 200
        assert [bool(o) for o in attempts.outcomes] == [True, True, True, False]
        assert got[3] is not None
        assert (await settle(client, "ack", [got[3][0]], up_to=True))["done"]
        assert all(o.delivered for o in await attempts.ended())


@pytest.mark.spec("PL-05")
async def test_a_reader_that_only_connects_again_gets_everything(kit: Kit) -> None:
    """As a browser's EventSource does: the stream ends when too much, or too long, is not acknowledged."""
    async with sink(kit, lease_s=0.4, max_leased=10) as (made, client):
        attempts = Attempts()
        for event in numbered(12):
            attempts.send(made, event)
        found: list[str] = []
        last = ""
        while not all(attempts.outcomes):
            async with client.stream("GET", "events", headers={"last-event-id": last} if last else {}) as response:
                reader = Reader(response)
                if all(attempts.outcomes):
                    break
                while (got := await reader.next()) is not None:
                    last = got[0]
                    found.append(got[1]["id"])
        assert found == [f"n{n}" for n in range(12)]
        assert all(o.delivered for o in await attempts.ended())


@pytest.mark.spec("PL-05")
async def test_what_a_lost_stream_had_is_there_again(kit: Kit) -> None:
    async with sink(kit, lease_s=0.2) as (made, client):
        attempts = Attempts()
        attempts.send(made, numbered(1)[0])
        async with client.stream("GET", "events") as response:
            assert await Reader(response).next() is not None
        (outcome,) = await attempts.ended()
        assert (outcome.delivered, outcome.retry) == (False, True)


async def test_line_breaks_in_data_survive_a_stream(kit: Kit) -> None:
    async with sink(kit) as (made, client):
        event = numbered(1)[0]
        event.attributes["datacontenttype"] = "application/json"
        event.data = b'{\r\n"a":\n\n1,\r"b": "x\\r\\n"}'
        attempts = Attempts()
        attempts.send(made, event)
        async with client.stream("GET", "events") as response:
            got = await Reader(response).next()
            assert got is not None
            assert got[1]["data"] == {"a": 1, "b": "x\r\n"}
            await settle(client, "ack", [got[0]])
        await attempts.ended()


@pytest.mark.spec("PL-06")
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_a_foreign_page_takes_no_events_as_an_image(kit: Kit, site: str) -> None:
    """A browser sends no `Origin` then. The leases would end unused, and the events go to the dead letter."""
    async with sink(kit, lease_s=0.2) as (made, client):
        attempts = Attempts()
        attempts.send(made, numbered(1)[0])
        fetched = await client.get("events", headers={"sec-fetch-site": site, "sec-fetch-mode": "no-cors"})
        assert fetched.status_code == 403
        assert (await client.get(made.address)).json() == {"available": 1, "leased": 0}
        assert (await client.get(made.address, headers={"sec-fetch-site": "none"})).status_code == 200
        await settle(client, "ack", leases(await fetch(client, 1)))
        await attempts.ended()
