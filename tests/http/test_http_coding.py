"""Requests with a `Content-Encoding`: gzip is undone, within the limit of bodies, and others are refused."""

from __future__ import annotations

import functools
import gzip
import json
import time
import zlib
from typing import Any

import pytest
from gateway_serving.content_coding import UnknownCoding, coding_of, decoded

from gateway_core.contract.errors import Refused
from tests import web
from tests.twins import twins

pytestmark = [pytest.mark.anyio, pytest.mark.spec("SAFE-23")]

EVENT = {"ce-id": "1", "ce-specversion": "1.0", "content-type": "application/json"}
BODY = b'{"n": "' + b"x" * 500 + b'"}'


@pytest.fixture(params=twins("native", "hypercorn"))
def server(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def anyio_backend() -> Any:
    return "asyncio", {"use_uvloop": True}


TAKEN = {
    "gzip": ("gzip", gzip.compress(BODY), BODY),
    "any case": ("GZip", gzip.compress(BODY), BODY),
    "x-gzip": ("x-gzip", gzip.compress(BODY), BODY),
    "two members": ("gzip", gzip.compress(BODY[:100]) + gzip.compress(BODY[100:]), BODY),
    "zeros behind": ("gzip", gzip.compress(BODY) + bytes(20), BODY),
    "of nothing": ("gzip", gzip.compress(b""), b""),
    "no body": ("gzip", b"", b""),
    "identity": ("identity", BODY, BODY),
    "none named": ("", BODY, BODY),
}


@pytest.mark.parametrize(("coding", "sent", "data"), TAKEN.values(), ids=TAKEN.keys())
async def test_gzip_is_undone(kit: Any, intake: Any, server: str, coding: str, sent: bytes, data: bytes) -> None:
    async with kit.source(intake, server=server) as source, web.async_client(verify=False) as client:
        answer = await client.post(source.address, headers={**EVENT, "content-encoding": coding}, content=sent)
        assert answer.status_code == 202
        structured = {"content-type": "application/cloudevents+json", "content-encoding": "gzip"}
        packed = gzip.compress(json.dumps({"id": "2"}).encode())
        assert (await client.post(source.address, headers=structured, content=packed)).status_code == 202
        assert (await client.post(source.address, headers=EVENT, content=BODY)).status_code == 202
    assert [e.data for e in intake.events[::2]] == [data, BODY]
    assert intake.ids() == ["1", "2", "1"]


@pytest.mark.parametrize("coding", ["br", "deflate", "zstd", "compress", "gzip, gzip", "gzip, br", "x" * 500])
async def test_other_codings_are_refused_with_those_that_are_taken(
    kit: Any, intake: Any, server: str, coding: str
) -> None:
    async with kit.source(intake, server=server) as source, web.async_client(verify=False) as client:
        answer = await client.post(source.address, headers={**EVENT, "content-encoding": coding}, content=BODY)
        assert (answer.status_code, answer.headers["accept-encoding"]) == (415, "gzip")
        assert answer.json()["rule"] == "RFC 9110 section 8.4"
        assert len(answer.json()["detail"]) < 200
    assert intake.events == []
    assert [e.status for e in intake.refused] == [415]


async def test_another_415_names_no_coding(kit: Any, intake: Any) -> None:
    from gateway_serving.responses import for_error

    assert [name for name, _ in for_error(Refused("unknown format", status=415)).headers] == [b"content-type"]


BROKEN = {
    "not gzip": BODY,
    "zlib": zlib.compress(BODY),
    "cut": gzip.compress(BODY)[:-9],
    "checksum": gzip.compress(BODY)[:-8] + bytes(8),
    "garbage behind": gzip.compress(BODY) + b"garbage",
    "many members": gzip.compress(b"a") * 65,
}


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN.keys())
async def test_what_is_no_gzip_is_refused(kit: Any, intake: Any, server: str, body: bytes) -> None:
    async with kit.source(intake, server=server) as source, web.async_client(verify=False) as client:
        answer = await client.post(source.address, headers={**EVENT, "content-encoding": "gzip"}, content=body)
        assert answer.status_code == 400
        assert answer.json()["rule"] == "RFC 9110 section 8.4.1.3"
        assert (await client.post(source.address, headers=EVENT)).status_code == 202
    assert len(intake.events) == 1


@functools.cache
def bomb() -> bytes:
    return gzip.compress(bytes(300 << 20), 9)


@pytest.mark.slow
async def test_a_bomb_costs_no_more_than_the_limit(kit: Any, intake: Any, server: str) -> None:
    limits = {"max_body_bytes": 1 << 20}
    assert len(bomb()) < 1 << 20
    exact = gzip.compress(bytes(1 << 20))
    async with kit.source(intake, server=server, limits=limits) as source, web.async_client(verify=False) as client:
        begin = time.process_time()
        answer = await client.post(source.address, headers={**EVENT, "content-encoding": "gzip"}, content=bomb())
        assert time.process_time() - begin < 1
        assert answer.status_code == 413
        answer = await client.post(source.address, headers={**EVENT, "content-encoding": "gzip"}, content=exact)
        assert answer.status_code == 202
    assert [len(e.data) for e in intake.events] == [1 << 20]


async def test_a_coding_is_refused_before_the_body_is_sent(kit: Any, intake: Any) -> None:
    head = b"POST / HTTP/1.1\r\nHost: x\r\nce-id: 1\r\nExpect: 100-continue\r\nContent-Length: 9\r\n"
    async with kit.source(intake) as source, kit.connect(source) as client:
        client.write(head + b"Content-Encoding: br\r\n\r\n")
        assert (await client.response())[0] == 415


async def test_a_reply_in_gzip_is_undone(kit: Any) -> None:
    from gateway_testing import Subscriber

    reply = {"ce-id": "r", "ce-type": "t", "content-type": "text/plain", "content-encoding": "gzip"}
    for name in ("native", "httpx"):
        with Subscriber(decide=lambda _: (200, reply, gzip.compress(b"hello"))) as far:
            async with kit.sink(far.url, wants_reply=True, client=name) as sink:
                outcome = await kit.send(sink)
        assert outcome.reply is not None, outcome.reason
        assert outcome.reply.data == b"hello"


def test_headers_say_what_is_there() -> None:
    packed = gzip.compress(BODY)
    headers = [(b"content-encoding", b"gzip"), (b"content-length", b"%d" % len(packed)), (b"a", b"b")]
    assert decoded(headers, packed, 1000) == ([(b"content-length", b"%d" % len(BODY)), (b"a", b"b")], BODY)
    with pytest.raises(UnknownCoding):
        coding_of([(b"content-encoding", b"gzip"), (b"content-encoding", b"br")])
