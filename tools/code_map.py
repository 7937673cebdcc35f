"""`docs/discussion/code-map.md`: the stages that `gateway_core.pipeline.compose` binds, and the files that an event
passes from socket to socket, by watching a real gateway."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import anyio
from confluent_kafka import Producer

from gateway_core.config.registry import Registry
from gateway_core.contract.configs import load
from gateway_core.contract.settings import Settings
from gateway_core.pipeline import compose
from gateway_core.runtime.gateway import Gateway

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "discussion" / "code-map.md"
HEAD = """\
<!-- Written by `make docs`; do not edit. -->

# An event's path through the code

To change how events flow, start with [`compose.py`](../../gateway_core/pipeline/compose.py). It binds these stages, in
this order:

{stages}

Then read the files of the path, in their order. `tools/code_map.py` finds them: it runs a gateway, sends it
events, and notes which functions of this project run. It leaves out functions that also run without events, such as
timers, and steps that only some gateways have, such as admissions and transforms.

The rest of `gateway_core` builds and reports; no event passes it. [Contributing](../../CONTRIBUTING.md) says
what each folder is for, and [design](design.md) why.
"""
_EVENTS = 9  # only what runs for each of them counts
_FOLDERS = (f"{ROOT}/gateway_core/", f"{ROOT}/plugins/")


Function = tuple[str, str]
"""A file, and the name of a function in it."""


class Recorder:
    """Notes which functions of this tree run, in their order, while it is on."""

    def __init__(self) -> None:
        self.on = False
        self._seen: dict[Function, None] = {}

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if self.on and event == "call" and (code := frame.f_code).co_filename.startswith(_FOLDERS):
            self._seen[code.co_filename, code.co_qualname] = None

    @property
    def noted(self) -> list[Function]:
        """What was noted so far."""
        return list(self._seen)

    def watch(self) -> None:
        """Begins with an empty list."""
        self._seen = {}
        self.on = True


@dataclass
class Subscriber:
    """An HTTP server that answers 200, and what the gateway had run when a request was complete."""

    recorder: Recorder
    url: str = ""
    got: asyncio.Event = field(default_factory=asyncio.Event)
    until: list[Function] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        try:
            while await _message(reader):
                self.until = self.recorder.noted
                self.got.set()
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        finally:
            writer.close()


async def _message(reader: asyncio.StreamReader) -> bytes:
    """The head of the next request or response, b"" at the end. Its body is read, too."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""
    length = next((line[15:] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), b"0")
    await reader.readexactly(int(length))
    return head


@asynccontextmanager
async def _running(config: dict[str, Any], folder: Path) -> AsyncIterator[Gateway]:
    from ruamel.yaml import YAML

    file = folder / "tidegate.yaml"
    YAML().dump(config, file)
    registry = Registry.installed()
    settings = Settings(data_dir=folder / "data", admin="off", drain_timeout_s=1)
    gateway = Gateway(load([file], registry), settings, registry)
    stop, started = anyio.Event(), anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(gateway.run, stop, started)
        await started.wait()
        yield gateway
        stop.set()


async def _watched(
    recorder: Recorder, ingress: str, arrived: Callable[[], Awaitable[list[Function]]] | None
) -> tuple[list[list[Function]], list[list[Function]]]:
    """Sends events one by one. For each: what ran until it was out, and what ran until everything was done."""
    host, port = ingress.removeprefix("http://").rstrip("/").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    request = (
        b"POST / HTTP/1.1\r\nhost: localhost\r\nce-specversion: 1.0\r\nce-id: 1\r\nce-source: /shop\r\n"
        b"ce-type: order.placed\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
    )
    out, done = [], []
    for number in range(_EVENTS + 2):
        recorder.watch()
        writer.write(request)
        head = await asyncio.wait_for(_message(reader), 30)
        if not head.startswith(b"HTTP/1.1 202"):
            raise RuntimeError(f"the gateway answered {head!r}")
        left = await asyncio.wait_for(arrived(), 30) if arrived else recorder.noted
        await asyncio.sleep(0.2)
        recorder.on = False
        if number > 1:  # the first ones import modules and open connections
            out.append(left)
            done.append(recorder.noted)
    recorder.watch()
    await asyncio.sleep(1)
    recorder.on = False
    idle = set(recorder.noted)
    writer.close()
    return [[f for f in run if f not in idle] for run in out], [[f for f in run if f not in idle] for run in done]


def _steady(runs: list[list[Function]], before: list[Function]) -> list[Function]:
    """The files that every run has, each with its first function.

    The log writes in a thread of its own, so what comes first is not always the same. If these runs may have seen
    `before`, the table of the page as it is, it stays.
    """
    files = set.intersection(*({file for file, _ in run} for run in runs))
    functions = {function for run in runs for function in run}
    if files <= {file for file, _ in before} and functions.issuperset(before):
        return before
    first = [dict(reversed(run)) for run in runs]
    orders = [list(dict.fromkeys(file for file, _ in run)) for run in runs]
    places = {file: sorted(order.index(file) for order in orders)[len(runs) // 2] for file in files}
    return [(file, first[0][file]) for file in sorted(files, key=lambda f: (places[f], f))]


async def _to_http(recorder: Recorder, folder: Path, before: list[list[Function]]) -> list[list[Function]]:
    subscriber = Subscriber(recorder)
    server = await asyncio.start_server(subscriber.serve, "127.0.0.1")
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    trigger = {"filter": {"type": "order.placed"}, "subscriber": url}
    config = {"brokers": {"default": {"ingress": [{"http": {"listen": "127.0.0.1:0"}}]}}, "triggers": {"t": trigger}}

    async def arrived() -> list[Function]:
        await subscriber.got.wait()
        subscriber.got.clear()
        return subscriber.until

    async with server, _running(config, folder) as gateway:
        out, done = await _watched(recorder, _ingress(gateway), arrived)
    path = _steady(out, before[0])
    known = {file for file, _ in path}
    return [path, _steady([[f for f in run if f[0] not in known] for run in done], before[1])]


async def _to_kafka(recorder: Recorder, folder: Path, before: list[Function]) -> list[Function]:
    cluster = Producer(
        {"bootstrap.servers": "unused", "test.mock.num.brokers": 1, "log_level": 4}
    )  # librdkafka has a Kafka for tests
    brokers = cluster.list_topics(timeout=10).brokers.values()
    sink = {"bootstrap": ",".join(f"{b.host}:{b.port}" for b in brokers), "topic": "orders"}
    bridge = {"source": {"http": {"listen": "127.0.0.1:0"}}, "sink": {"kafka": sink}}
    async with _running({"bridges": {"b": bridge}}, folder) as gateway:
        _, done = await _watched(recorder, _ingress(gateway), None)
    return _steady(done, before)


def _ingress(gateway: Gateway) -> str:
    status = gateway.status()
    return next(iter([*(broker.ingress[0] for broker in status.brokers), *(b.source for b in status.bridges)]))


def _stages() -> str:
    """The path as `compose` binds it."""
    names = " → ".join(f"**{stage.name}**" for stage in compose.PATH)
    lines = [names, "", "| stage | interface or step | what happens |", "| --- | --- | --- |"]
    for stage in compose.PATH:
        file = Path(inspect.getfile(stage.by)).relative_to(ROOT)
        lines.append(f"| {stage.name} | [`{stage.by.__qualname__}`](../../{file}) | {stage.what} |")
    return "\n".join(lines)


def _row(number: int, file: str, function: str) -> str:
    path = Path(file)
    doc = ast.get_docstring(ast.parse(path.read_text())) or ""
    sentence = " ".join(doc.split("\n\n")[0].split()).split(". ")[0].rstrip(".:")
    short = file.removeprefix(f"{ROOT}/")
    return f"| {number} | [`{short.removeprefix('plugins/')}`](../../{short}) | `{function}` | {sentence} |"


def _table(rows: list[Function], start: int = 1) -> str:
    lines = ["| | file | first function | what it is |", "| --- | --- | --- | --- |"]
    return "\n".join([*lines, *(_row(n, *row) for n, row in enumerate(rows, start))])


def _rest(rows: list[Function], start: int) -> str:
    """What runs after an event is out, in files that it did not pass before."""
    if not rows:
        return ""
    done = "the sender gets its 202, the response becomes an outcome, and the cursor moves on"
    return f"\nMeanwhile and after that: {done}.\n\n{_table(rows, start)}\n"


def _before() -> list[list[Function]]:
    """The tables of the page as it is."""
    text = PAGE.read_text() if PAGE.exists() else ""
    row = re.compile(r"^\| \d+ \| \[`.*?`\]\(../../(.*?)\) \| `(.*?)` \|", re.MULTILINE)
    tables = [row.findall(table) for table in text.split("| --- | --- | --- | --- |")[1:]]
    found = [[(f"{ROOT}/{file}", function) for file, function in table] for table in tables]
    if len(found) == 2:
        found.insert(1, [])
    return found if len(found) == 3 else [[], [], []]


def code_map() -> str:
    """The page."""
    recorder, before = Recorder(), _before()
    threading.setprofile(recorder)
    sys.setprofile(recorder)
    try:
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
            out, back = asyncio.run(_to_http(recorder, Path(one), before))
            kafka = asyncio.run(_to_kafka(recorder, Path(two), before[2]))
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return f"""{HEAD.format(stages=_stages())}
## HTTP, log, HTTP

A trigger with a filter, from the sender's request to the subscriber's: **{len(out)} files**.

{_table(out)}
{_rest(back, len(out) + 1)}
## HTTP to Kafka

A bridge, from the sender's request to the 202 that follows the record's acknowledgement: **{len(kafka)} files**.

{_table(kafka)}
"""
