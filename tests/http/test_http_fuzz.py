"""Any bytes at the native server: never a 5xx, never a dead server, nothing left behind."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.budget import examples

TOKENS = [
    b"POST / HTTP/1.1\r\n",
    b"GET / HTTP/1.1\r\n",
    b"OPTIONS * HTTP/1.1\r\n",
    b"POST /x HTTP/1.0\r\n",
    b"HEAD / HTTP/1.1\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"CONNECT a:1 HTTP/1.1\r\n",
    b"POST http://h/ HTTP/1.1\r\n",
    b"Host: x\r\n",
    b"ce-id: 1\r\n",
    b"Content-Length: 5\r\n",
    b"Content-Length: 0\r\n",
    b"Content-Length: -1\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: gzip\r\n",
    b"Connection: close\r\n",
    b"Connection: Upgrade\r\n",
    b"Connection: keep-alive\r\n",
    b"Upgrade: h2c\r\n",
    b"Expect: 100-continue\r\n",
    b"Expect: x\r\n",
    b"Content-Type: application/cloudevents+json\r\n",
    b"WebHook-Request-Origin: a\r\n",
    b"\r\n",
    b"\n",
    b"\r",
    b"hello",
    b'{"id":1}',
    b"5\r\nhello\r\n",
    b"0\r\n\r\n",
    b"0\r\na: b\r\n\r\n",
    b"ffffffff\r\n",
    b"5;x=y\r\nhello\r\n",
    b" ",
    b"\t",
    b"\0",
    b"a: " + b"b" * 2000 + b"\r\n",
    b"c: d\r\n" * 40,
]
HEADERS = [t for t in TOKENS if re.fullmatch(rb"[A-Za-z-]+: .*\r\n", t, re.DOTALL)]

pieces = st.lists(st.sampled_from(TOKENS) | st.binary(max_size=20), max_size=25)
requests = st.lists(
    st.tuples(st.sampled_from(TOKENS[:8]), st.lists(st.sampled_from(HEADERS), max_size=6), st.sampled_from(TOKENS)).map(
        lambda r: [r[0], b"Host: x\r\n", b"ce-id: 1\r\n", *r[1], b"\r\n", r[2]]
    ),
    min_size=1,
    max_size=4,
).map(lambda rs: [piece for r in rs for piece in r])


@pytest.mark.slow
@examples(100, database=None, suppress_health_check=list(HealthCheck))
@given(parts=pieces | requests, whole=st.booleans(), hold=st.booleans())
def test_any_bytes(kit: Any, intake: Any, request_bytes: Any, parts: list[bytes], whole: bool, hold: bool) -> None:
    anyio.run(_attack, kit, type(intake)(), request_bytes, parts, whole, hold, backend_options={"use_uvloop": True})


async def _attack(kit: Any, intake: Any, request_bytes: Any, parts: list[bytes], whole: bool, hold: bool) -> None:
    intake.hold = hold
    async with kit.source(intake, limits={"max_header_bytes": 2048, "max_headers": 32}) as source:
        async with kit.connect(source) as client:
            for part in [b"".join(parts)] if whole else parts:
                client.write(part)
                await asyncio.sleep(0)
            client.writer.write_eof()
            if hold:
                await asyncio.sleep(0.001)
                for done in intake.held:
                    done(None)
                intake.hold = False
            answers = await client.rest()
        statuses = [int(s) for s in re.findall(rb"HTTP/1\.1 (\d{3}) ", answers)]
        assert all(100 <= s < 500 for s in statuses), (statuses, answers)
        async with kit.connect(source) as client:
            client.write(request_bytes("alive"))
            assert (await client.response())[0] == 202
        assert intake.ids()[-1] == "alive"
