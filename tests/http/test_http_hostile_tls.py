"""Clients that break off, garble or misuse TLS and HTTP/2: nothing is logged, and others are served."""

from __future__ import annotations

import logging
import random
import socket
import ssl
import struct
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import h2.config
import h2.connection
import pytest
import trustme

from tests.twins import twins

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60), pytest.mark.spec("SAFE-19")]

POST = b"POST / HTTP/1.1\r\nHost: x\r\nce-id: 1\r\nContent-Length: 0\r\n\r\n"
HEADERS = [(":method", "POST"), (":path", "/"), (":scheme", "http"), (":authority", "x"), ("ce-id", "1")]
RESET = struct.pack("ii", 1, 0)  # close() resets


@pytest.fixture(params=twins("native", "hypercorn"))
def server(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    ca = trustme.CA(key_type=trustme.KeyType.ECDSA)
    cert = ca.issue_cert("127.0.0.1", "localhost", key_type=trustme.KeyType.ECDSA)
    cert.private_key_pem.write_to_path(folder / "server.key")
    for blob in cert.cert_chain_pems:
        blob.write_to_path(folder / "server.pem", append=True)
    ca.cert_pem.write_to_path(folder / "ca.pem")
    return folder


def _garble_tls(port: int, ca: str) -> None:
    chance = random.Random(1)
    trust, distrust = ssl.create_default_context(cafile=ca), ssl.create_default_context()
    for i in range(150):
        with socket.create_connection(("127.0.0.1", port), 10) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            way = i % 6
            if way == 0:
                sock.sendall(POST)
            elif way == 1:
                sock.sendall(chance.randbytes(200))
            elif way == 2:  # a hello that is cut
                sock.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
            elif way == 3:  # a record in the middle of the connection that is none
                with trust.wrap_socket(sock.dup(), server_hostname="localhost") as tls:
                    tls.sendall(POST[:20])
                    sock.sendall(b"\x17\x03\x03\x00\x20" + chance.randbytes(32))
            elif way == 4:  # the end without TLS's own
                with trust.wrap_socket(sock.dup(), server_hostname="localhost") as tls:
                    tls.sendall(POST + b"BAD\r\n\r\n")
                    sock.shutdown(socket.SHUT_WR)
            else:  # a certificate that this client does not trust
                with pytest.raises(ssl.SSLError), sock.dup() as twin:
                    distrust.wrap_socket(twin, server_hostname="localhost")
            if i % 2:
                threading.Event().wait(0.001)


@pytest.mark.slow
async def test_garbled_tls_logs_nothing(
    kit: Any, intake: Any, folder: Path, server: str, caplog: pytest.LogCaptureFixture
) -> None:
    tls = {"cert_file": folder / "server.pem", "key_file": folder / "server.key"}
    async with kit.source(intake, server=server, tls=tls) as source:
        with caplog.at_level(logging.INFO):
            await anyio.to_thread.run_sync(_garble_tls, urlsplit(source.address).port, str(folder / "ca.pem"))
            trust = ssl.create_default_context(cafile=str(folder / "ca.pem"))
            async with kit.connect(source, trust) as client:
                client.write(POST)
                assert (await client.response())[0] == 202
    assert [r.getMessage() for r in caplog.records] == []


def _garble_http2(port: int, rounds: int) -> None:
    chance = random.Random(1)
    for i in range(rounds):
        client = h2.connection.H2Connection(h2.config.H2Configuration(validate_outbound_headers=False))
        client.initiate_connection()
        client.send_headers(1, HEADERS)
        client.send_data(1, b"x" * 100)
        if i % 3:
            client.end_stream(1)
        data = bytearray(client.data_to_send())
        for _ in range(chance.randrange(4)):  # the preface and the first frame's head stay
            place = chance.randrange(33, len(data))
            data[place] = chance.randrange(256)
        if i % 5 == 0:
            data += chance.randbytes(50)
        with socket.create_connection(("127.0.0.1", port), 10) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET if i % 2 else struct.pack("ii", 0, 0))
            cut = chance.randrange(1, len(data))
            sock.sendall(data[:cut])
            if i % 4 == 0:
                threading.Event().wait(0.002)
            try:
                sock.sendall(data[cut:])
            except OSError:
                continue
            if i % 4 == 1:
                sock.settimeout(0.02)
                try:
                    sock.recv(1000)
                except OSError:
                    continue


@pytest.mark.slow
async def test_garbled_http2_logs_nothing(kit: Any, intake: Any, caplog: pytest.LogCaptureFixture) -> None:
    async with kit.source(intake, server="hypercorn") as source:
        with caplog.at_level(logging.INFO):
            await anyio.to_thread.run_sync(_garble_http2, urlsplit(source.address).port, 400)
            async with kit.connect(source) as client:
                client.write(POST)
                assert (await client.response())[0] == 202
    assert [r.getMessage() for r in caplog.records] == []
