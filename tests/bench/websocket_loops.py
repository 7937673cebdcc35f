"""What an event costs in the WebSocket source and sink, beside loops written by hand with the same library.

All measured cases run in this process, on uvloop like a gateway, and are interleaved in rounds; medians are shown. A
case's figure is the CPU time of this process per event; the other end is a process of its own. The intake answers at
once: what a gateway does besides (storage, routing, delivery) is not in it. The loops do the least that is right: one
`recv` or `send` and JSON for each event; where events are acknowledged, one acknowledgement for each, as the
subprotocol has it.

    python tests/bench/websocket_loops.py --rounds 5 --events 20000
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvloop
from gateway_testing.suites import Kit
from loops import Figures, arguments, compare, event, measured, read_with, send_with
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve

from gateway_core.contract.event import Event

PLAIN, ACK = "cloudevents.json", "cloudevents.json+ack.tidegate.dev"
WINDOW = 500
CASES = [f"{what}, {mode}" for mode in ("acks", "plain") for what in ("loop in", "source", "loop out", "sink")]


def text(one: Event) -> str:
    return json.dumps({**one.attributes, "data": json.loads(one.data or b"null")})


def acknowledged(message: str | bytes) -> int:
    """How many events a message acknowledges."""
    found = json.loads(message)["ack"]
    return found[1] - found[0] + 1 if isinstance(found, list) else 1


# -- the other end, in a process of its own ---------------------------------------------------------------------------


async def sender(url: str, count: int, subprotocol: Any) -> None:
    """Sends events, and waits for all acknowledgements."""
    texts = [text(event(n)) for n in range(count)]
    async with connect(url, subprotocols=[subprotocol], compression=None, proxy=None) as connection:
        open = 0
        for message in texts:
            await connection.send(message)
            open += 1
            while subprotocol == ACK and open >= WINDOW:
                open -= acknowledged(await connection.recv())
        while subprotocol == ACK and open:
            open -= acknowledged(await connection.recv())


async def receiver(subprotocol: Any) -> None:
    """Prints its port, and receives events until it is terminated."""

    async def take(connection: ServerConnection) -> None:
        number = 0
        async for _ in connection:
            number += 1
            if subprotocol == ACK:
                await connection.send(f'{{"ack":{number}}}')

    async with serve(take, "127.0.0.1", 0, subprotocols=[subprotocol], compression=None) as server:
        print(next(iter(server.sockets)).getsockname()[1], flush=True)
        await asyncio.get_running_loop().create_future()


@contextmanager
def other(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, __file__, "--other", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


# -- loops written by hand --------------------------------------------------------------------------------------------


async def loop_in(count: int, mode: str, begin: Callable[[str], None]) -> None:
    seen = 0
    ended = asyncio.Event()

    async def take(connection: ServerConnection) -> None:
        nonlocal seen
        number = 0
        async for message in connection:
            found = json.loads(message)
            assert found["specversion"] == "1.0"
            assert found["id"]
            number += 1
            if mode == "acks":
                await connection.send(f'{{"ack":{number}}}')
            seen += 1
            if seen == count:
                ended.set()

    names: Any = [ACK if mode == "acks" else PLAIN]
    async with serve(take, "127.0.0.1", 0, subprotocols=names, compression=None) as server:
        begin(f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/")
        await ended.wait()


async def loop_out(events: Sequence[Event], mode: str, url: str) -> None:
    names: Any = [ACK if mode == "acks" else PLAIN]
    async with connect(url, subprotocols=names, compression=None, proxy=None) as connection:
        open = 0
        for one in events:
            await connection.send(text(one))
            open += 1
            while mode == "acks" and open >= WINDOW:
                open -= acknowledged(await connection.recv())
        while mode == "acks" and open:
            open -= acknowledged(await connection.recv())


# -- the plugin's components ------------------------------------------------------------------------------------------


def acknowledge(mode: str) -> str:
    return "required" if mode == "acks" else "off"


async def source(kit: Kit, count: int, mode: str, begin: Callable[[str], None]) -> None:
    built: Any = kit.source("websocket", {"listen": "127.0.0.1:0", "acknowledge": acknowledge(mode)})
    await read_with(built, count, started=lambda: begin(built.address))


async def sink(kit: Kit, events: Sequence[Event], mode: str, url: str) -> None:
    built = kit.sink("websocket", {"url": url, "acknowledge": acknowledge(mode)})
    await send_with(built, events, WINDOW)


# -- runs -------------------------------------------------------------------------------------------------------------


async def run(case: str, kit: Kit, count: int) -> Figures:
    """One run of a case: CPU microseconds an event, and events a second."""
    what, _, mode = case.partition(", ")
    subprotocol = ACK if mode == "acks" else PLAIN
    events = [event(n) for n in range(count)] if what in ("loop out", "sink") else []
    if events:
        with other("receive", subprotocol) as process:
            assert process.stdout is not None
            url = f"ws://127.0.0.1:{process.stdout.readline().strip()}/"
            with measured(count) as figures:
                await (loop_out(events, mode, url) if what == "loop out" else sink(kit, events, mode, url))
        return figures
    processes: list[Any] = []

    def begin(url: str) -> None:
        processes.append(other("send", url, count, subprotocol))
        processes[0].__enter__()

    with measured(count) as figures:
        await (loop_in(count, mode, begin) if what == "loop in" else source(kit, count, mode, begin))
    processes[0].__exit__(None, None, None)
    return figures


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--other", nargs="+", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.other:
        what, *rest = a.other
        uvloop.run(sender(rest[0], int(rest[1]), rest[2]) if what == "send" else receiver(rest[0]))
        return
    with tempfile.TemporaryDirectory() as scratch:
        kit = Kit(Path(scratch))
        compare(a, CASES, lambda case, count: uvloop.run(run(case, kit, count)))


if __name__ == "__main__":
    main()
