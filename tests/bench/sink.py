"""A subscriber that costs little: counts requests and answers 202. `GET /count` tells. Prints its URL. It may answer
with another status, or after a wait."""

from __future__ import annotations

import argparse
import asyncio

import httptools
import uvloop

ACCEPTED = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"
answer, wait_s = ACCEPTED, 0.0
count = 0


class Sink(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self.parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_message_complete(self) -> None:
        global count
        if self.parser.get_method() == b"GET":
            body = str(count).encode()
            self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
            return
        count += 1
        if wait_s:
            asyncio.get_running_loop().call_later(wait_s, self._answer)
        else:
            self.transport.write(answer)

    def _answer(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(answer)


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Sink, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--status", type=int, default=202)
    parser.add_argument("--wait", type=float, default=0.0, help="seconds before each answer")
    given = parser.parse_args()
    answer, wait_s = ACCEPTED.replace(b"202", b"%d" % given.status), given.wait
    uvloop.run(main())
