"""What a source does with what comes over its connections."""

from __future__ import annotations

import json
import random
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from gateway_testing.suites import Kit
from gateway_testing.suites.kit import until
from gateway_websocket.subprotocol import nack
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode

from gateway_core.contract.errors import NotDelivered, Refused, StorageError
from gateway_core.contract.outcome import Stage
from tests.docs.blocks import of_page
from tests.faults.proxy import Proxy
from tests.websocket.far import ACK, PLAIN, Feed
from tests.websocket.rig import EVENT, KEY, UPGRADE, client, closed, ids, source, speaks

pytestmark = pytest.mark.anyio


@pytest.mark.spec("SAFE-34")
@pytest.mark.parametrize("error", [MemoryError(), SystemError("error return without exception set")])
@pytest.mark.parametrize("by_codec", [True, False])
async def test_an_event_that_memory_is_too_short_for_may_come_again(error: Exception, by_codec: bool) -> None:
    refused = Refused("the codec failed")
    refused.__cause__ = error
    answer = json.loads(nack(1, refused if by_codec else error))
    assert (answer["retry"], answer["problem"]["status"]) == (True, 503)


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return Kit(tmp_path)


async def numbers(connection: Any, count: int) -> list[int]:
    """The numbers that are acknowledged, until there are `count`."""
    found: list[int] = []
    while len(found) < count:
        ack = json.loads(await connection.recv())["ack"]
        found += range(ack[0], ack[1] + 1) if isinstance(ack, list) else [ack]
    return found


@pytest.mark.spec("WS-05")
async def test_events_that_come_together_are_acknowledged_together(kit: Kit) -> None:
    async with source(kit) as (made, intake), client(made.address) as sender:
        intake.hold = True
        for n in range(20):
            await sender.send(EVENT % n)
        await until(lambda: bool(intake.events) and made.info()["unacknowledged"] == 20, "the events to come")
        intake.release()
        assert sorted(await numbers(sender, 20)) == [*range(1, 21)]
        assert ids(intake.events) == [str(n) for n in range(20)]
        assert made.info()["unacknowledged"] == 0


@pytest.mark.spec("WS-01", "WS-05")
async def test_what_is_not_an_event_is_refused_with_its_number_and_a_problem(kit: Kit) -> None:
    async with source(kit) as (made, intake), client(made.address) as sender:
        bad: list[str | bytes] = [
            b"binary",
            "[]",
            "{nonsense",
            '{"specversion":"1.0","source":"/s","type":"t"}',
            f"[{EVENT % 1}]",
        ]
        for message in bad:
            await sender.send(message)
        answers = [json.loads(await sender.recv()) for _ in bad]
        assert [a["nack"] for a in answers] == [1, 2, 3, 4, 5]
        assert not any(a["retry"] for a in answers)
        assert [a["problem"]["status"] for a in answers] == [415, 400, 400, 400, 400]
        assert answers[3]["problem"]["attribute"] == "id"
        await sender.send(EVENT % 6)
        assert json.loads(await sender.recv()) == {"ack": 6}
        assert len(intake.refused) == 5
        assert intake.letters == []


@pytest.mark.spec("WS-05")
async def test_what_will_never_be_delivered_goes_back_to_the_sender(kit: Kit) -> None:
    async with source(kit) as (made, intake), client(made.address) as sender:
        intake.stores = False
        intake.result = NotDelivered("the subscriber said 422", 422)
        await sender.send(EVENT % 1)
        answer = json.loads(await sender.recv())
        assert (answer["nack"], answer["retry"], answer["problem"]["sinkStatus"]) == (1, False, 422)
        intake.result = None
        await sender.send(EVENT % 2)
        assert json.loads(await sender.recv()) == {"ack": 2}
        assert made.info()["unacknowledged"] == 0


@pytest.mark.spec("WS-06")
@pytest.mark.parametrize("choice", ["dead_letter", "wrap", "drop"])
async def test_without_acknowledgements_what_is_not_an_event_is_kept(kit: Kit, choice: str) -> None:
    async with source(kit, not_an_event=choice) as (made, intake), client(made.address, PLAIN) as sender:
        for message in ("{nonsense", b"\x00binary", EVENT % 3):
            await sender.send(message)
        wanted = 3 if choice == "wrap" else 1
        await until(lambda: len(intake.events) == wanted, "the events")
        found = {"dead_letter": [e for e, _, _ in intake.letters], "wrap": intake.events[:2], "drop": []}[choice]
        assert [e.data for e in found] == ([] if choice == "drop" else [b"{nonsense", b"\x00binary"])
        assert all(outcome.stage is Stage.DECODE for _, outcome, _ in intake.letters)
        assert len(intake.refused) == (2 if choice == "drop" else 0)


@pytest.mark.slow
@pytest.mark.spec("WS-06")
async def test_a_sender_without_acknowledgements_is_named(kit: Kit, caplog: pytest.LogCaptureFixture) -> None:
    async with source(kit) as (made, intake), client(made.address, PLAIN) as sender:
        await sender.send(EVENT % 1)
        await until(lambda: len(intake.events) == 1, "the event")
        assert made.info()["connections_without_acks"] == 1
        assert "at most once" in caplog.text
        intake.result = StorageError("the disk is full")
        await sender.send(EVENT % 2)
        await until(lambda: made.info()["unacknowledged"] == 1, "the event")
        await sender.close()  # it will never be redelivered, so the source keeps it
        await until(lambda: made.info()["connections"] == 0, "the end")
        intake.result = None
        await until(lambda: made.info()["unacknowledged"] == 0, "the event to be stored")
        assert ids(intake.events)[-1] == "2"


@pytest.mark.slow
@pytest.mark.spec("WS-08")
@pytest.mark.parametrize("subprotocol", [ACK, PLAIN])
async def test_a_source_that_can_not_store_reads_no_more(kit: Kit, subprotocol: str) -> None:
    event = EVENT % ("x" * 10_000)
    async with source(kit, max_unacknowledged=100) as (made, intake), client(made.address, subprotocol) as sender:
        intake.hold = True
        sent = 0

        async def send() -> None:
            nonlocal sent
            while sent < 3000:
                await sender.send(event)
                sent += 1

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            await until(lambda: made.info()["unacknowledged"] >= 100, "the source to be full")
            before = -1
            while sent != before:
                before = sent
                await anyio.sleep(0.1)
            assert sent < 3000
            assert made.info()["unacknowledged"] < 100 + 300_000 // 10_000  # and what one read brought
            intake.release()
            if subprotocol == ACK:
                assert sorted(await numbers(sender, 3000)) == [*range(1, 3001)]
        await until(lambda: len(intake.events) == 3000, "all events")


@pytest.mark.spec("WS-09")
async def test_a_long_message_ends_its_connection_and_no_other(kit: Kit) -> None:
    async with source(kit, max_message_bytes=2000) as (made, intake), client(made.address) as other:
        for message in (EVENT % ("x" * 2000), [EVENT % "y"] * 40):
            async with client(made.address) as sender:
                with suppress(ConnectionClosed):
                    await sender.send(message)
                assert await closed(sender) == 1009
        await other.send(EVENT % 1)
        assert json.loads(await other.recv()) == {"ack": 1}
        assert ids(intake.events) == ["1"]


def frame(opcode: Opcode, data: bytes, *, fin: bool = True, mask: bool = True) -> bytes:
    return Frame(opcode, data, fin).serialize(mask=mask)


HOSTILE = {
    "unmasked": (frame(Opcode.TEXT, b"{}", mask=False), 1002),
    "reserved bits": (bytes([0xF1]) + frame(Opcode.TEXT, b"{}")[1:], 1002),
    "an unknown opcode": (bytes([0x83]) + frame(Opcode.TEXT, b"{}")[1:], 1002),
    "a continuation of nothing": (frame(Opcode.CONT, b"x"), 1002),
    "a long ping": (bytes([0x89, 0xFE]) + b"\x00\xff" + bytes(4) + bytes(255), 1002),
    "text that is not UTF-8": (frame(Opcode.TEXT, b"\xc3\x28"), 1007),
    "fragments that are not UTF-8": (frame(Opcode.TEXT, b"\xc3", fin=False) + frame(Opcode.CONT, b"\x28"), 1007),
    "a message within a message": (frame(Opcode.TEXT, b"{", fin=False) + frame(Opcode.TEXT, b"}"), 1002),
    "endless fragments": (frame(Opcode.TEXT, b"x", fin=False) + frame(Opcode.CONT, b"", fin=False) * 5000, 1009),
    "an endless message": (bytes([0x82, 0xFF]) + struct.pack(">Q", 1 << 62) + bytes(4), 1009),
}


async def raw(url: str, data: bytes) -> bytes:
    """What comes back if these bytes follow a handshake, until the other end closes."""
    host, _, port = url.removeprefix("ws://").partition("/")[0].partition(":")
    async with await anyio.connect_tcp(host, int(port)) as stream:
        head = ["GET / HTTP/1.1", "Host: localhost", *UPGRADE, KEY, speaks(ACK), "", ""]
        await stream.send("\r\n".join(head).encode() + data)
        found = b""
        try:
            while True:
                found += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return found


@pytest.mark.spec("WS-09")
@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_frames_end_their_connection_with_the_right_code(kit: Kit, name: str) -> None:
    data, code = HOSTILE[name]
    async with source(kit) as (made, intake):
        with anyio.fail_after(30):
            answer = await raw(made.address, data)
        assert answer.startswith(b"HTTP/1.1 101 ")
        behind = answer.partition(b"\r\n\r\n")[2]
        assert behind[0] == 0x88, "a close frame"
        assert struct.unpack(">H", behind[2:4])[0] == code
        assert intake.events == []


async def test_what_comes_right_behind_the_request_is_answered_behind_the_response(kit: Kit) -> None:
    async with source(kit) as (made, intake):
        last = frame(Opcode.CLOSE, b"\x03\xe8")
        answer = await raw(made.address, frame(Opcode.PING, b"p") + frame(Opcode.TEXT, (EVENT % 1).encode()) + last)
        assert answer.startswith(b"HTTP/1.1 101 ")
        assert answer.partition(b"\r\n\r\n")[2].startswith(b"\x8a\x01p")
        assert ids(intake.events) == ["1"]


@pytest.mark.slow
@pytest.mark.spec("WS-09")
async def test_a_silent_end_is_closed_and_one_that_answers_pings_is_not(kit: Kit) -> None:
    quick = {"ping_interval_s": 0.1, "ping_timeout_s": 0.2, "limits": {"header_timeout_s": 0.3}}
    async with source(kit, **quick) as (made, _), client(made.address) as alive:
        host, port = made.address.removeprefix("ws://").rstrip("/").split(":")
        async with await anyio.connect_tcp(host, int(port)) as never:  # sends no request
            with pytest.raises(anyio.EndOfStream), anyio.fail_after(30):
                await never.receive()
        with anyio.fail_after(30):
            assert b" 101 " in await raw(made.address, b"")  # answers no ping
        await alive.send(EVENT % 1)
        assert json.loads(await alive.recv()) == {"ack": 1}


@pytest.mark.spec("WS-12")
async def test_a_stop_closes_with_1001_and_acknowledges_what_it_took(kit: Kit) -> None:
    async with source(kit) as (made, intake), client(made.address) as sender:
        intake.hold = True
        await sender.send(EVENT % 1)
        await until(lambda: len(intake.events) == 1, "the event")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(made.stop)
            await anyio.sleep(0.05)
            intake.release()
            assert json.loads(await sender.recv()) == {"ack": 1}
            assert await closed(sender) == 1001


@pytest.mark.spec("WS-03", "WS-04")
async def test_a_source_connects_again_and_gets_what_was_not_acknowledged(kit: Kit) -> None:
    feed = Feed(ACK)
    with feed:
        async with source(kit, url=feed.url) as (made, intake):
            await until(lambda: made._connection is not None and made._connection.connected, "the connection")
            assert await feed.send(EVENT % 1, 30)
            await anyio.to_thread.run_sync(feed.leave)
            await until(lambda: bool(made.info()["error"]), "the loss to be noticed")
            await anyio.to_thread.run_sync(feed.take)
            await until(lambda: made.info()["error"] is None, "the next connection")
            assert await feed.send(EVENT % 2, 30)
            assert feed.connections == 2
        assert ids(intake.events) == ["1", "2"]


@pytest.mark.slow
@pytest.mark.spec("WS-09", "SAFE-78")
async def test_a_source_whose_connection_died_without_a_word_connects_again(kit: Kit) -> None:
    feed = Feed(ACK)
    quick = {"ping_interval_s": 0.1, "ping_timeout_s": 0.2}
    with feed, Proxy(feed.port) as proxy:
        async with source(kit, url=feed.url.replace(str(feed.port), str(proxy.port)), **quick) as (made, intake):
            await until(lambda: made._connection is not None and made._connection.connected, "the connection")
            assert await feed.send(EVENT % 1, 30)
            assert proxy.forget() == 1
            await until(lambda: proxy.accepted == 2 and made.info()["error"] is None, "the next connection")
            await until(lambda: feed.connections == 2, "the remote side to see it")
            assert await feed.send(EVENT % 2, 30)
        assert ids(intake.events) == ["1", "2"]


def by_chance(chance: random.Random) -> bytes:
    """Frames and other bytes."""
    kinds = [Opcode.TEXT, Opcode.BINARY, Opcode.CONT]
    parts = []
    for _ in range(chance.randrange(6)):
        data = chance.randbytes(chance.randrange(200))
        whole = frame(chance.choice(kinds), data, fin=chance.random() < 0.7)
        event = frame(Opcode.TEXT, (EVENT % 1).encode())
        parts.append(chance.choice([whole, whole, frame(Opcode.PING, data[:125]), event, data[:40]]))
    return b"".join(parts) + frame(Opcode.CLOSE, b"\x03\xe8")


@pytest.mark.slow
@pytest.mark.spec("WS-09")
async def test_whatever_a_client_sends_no_other_connection_notices(kit: Kit) -> None:
    """The connection lives or ends, and the next event on another one is acknowledged."""
    quick = {"ping_interval_s": 0.1, "ping_timeout_s": 0.2}  # for frames without an end
    async with source(kit, **quick) as (made, intake), client(made.address) as other:
        for seed in range(60):
            await raw(made.address, by_chance(random.Random(seed)))
            await other.send(EVENT % f"other{seed}")
            assert json.loads(await other.recv()) == {"ack": seed + 1}
        assert {f"other{seed}" for seed in range(60)} <= {*ids(intake.events)}


@pytest.mark.spec("WS-05")
async def test_the_sender_of_the_page_works(kit: Kit) -> None:
    """The Python code in docs/howto/websocket.md."""
    (block,) = of_page("docs/howto/websocket.md", "python")
    code: dict[str, Any] = {}
    exec(block.text, code)
    async with source(kit) as (made, intake):
        events = [json.loads(EVENT % n) for n in range(5)]
        await anyio.to_thread.run_sync(code["send"], made.address, events)
        assert ids(intake.events) == ["0", "1", "2", "3", "4"]
        with pytest.raises(ValueError, match="id"):
            await anyio.to_thread.run_sync(code["send"], made.address, [{"specversion": "1.0"}])
