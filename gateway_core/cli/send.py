"""`tidegate send`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import anyio
import typer

from .. import eventjson
from . import FAULT, OK, common, events
from .post import BATCH, STRUCTURED, binary, check_url, client, post

Request = tuple[dict[str, str], bytes, int]
"""Headers, body, and the number of events."""


@dataclass(frozen=True, slots=True)
class Options:
    mode: str
    batch_size: int
    rate: float | None
    retry: int
    in_flight: int
    as_json: bool


@dataclass(slots=True)
class Tally:
    """What became of the events."""

    accepted: int = 0
    refused: int = 0
    unanswered: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    fault: common.CommandError | None = None

    @property
    def sent(self) -> int:
        return self.accepted + self.refused + self.unanswered


def send_events(
    url: str,
    file: Path | None,
    single: Mapping[str, str | None],
    data: str | None,
    extensions: Sequence[str],
    options: Options,
) -> int:
    """Sends, shows how far it is, and reports. Returns the exit code."""
    try:
        check_url(url)
    except ValueError as e:
        raise typer.BadParameter(str(e), param_hint="URL") from e
    if (file is None) == (single["type"] is None):
        raise typer.BadParameter("name a file of events (- is standard input), or build one event with --type")
    if file is not None:
        texts = events.from_file(file)
    else:
        texts = iter([eventjson.structured(events.from_flags(single, data, extensions))])
    tally = Tally()
    with _progress(tally, shown=file is not None and not options.as_json) as advance:
        anyio.run(_send_all, url, _requests(texts, options), options, tally, advance)
    _report(tally, options)
    if tally.fault is not None:
        raise tally.fault
    return OK if tally.accepted == tally.sent else FAULT


def _requests(texts: Iterator[bytes], options: Options) -> Iterator[Request]:
    if options.mode == "batch":
        for group in _groups(texts, options.batch_size):
            yield BATCH, b"[" + b",".join(map(events.plain, group)) + b"]", len(group)
    elif options.mode == "binary":
        for text in texts:
            yield *binary(eventjson.load(text)), 1
    else:
        for text in texts:
            yield STRUCTURED, events.plain(text), 1


async def _send_all(
    url: str, requests: Iterator[Request], options: Options, tally: Tally, advance: Callable[[], None]
) -> None:
    """`in_flight` senders take from one iterator. Without any answer, even after the retries, there is no use in
    going on."""
    pace, one = _Pace(options.rate), anyio.Lock()

    async def take() -> Request | None:
        # in a thread: standard input may have nothing for long, while answers come
        try:
            async with one:
                return await anyio.to_thread.run_sync(next, requests, None, abandon_on_cancel=True)
        except common.CommandError as e:
            tally.fault = e
            return None

    async with client([url], options.in_flight) as to, anyio.create_task_group() as tasks:

        async def sender() -> None:
            while request := await take():
                headers, body, count = request
                await pace.turn(count)
                answer = await post(to, url, headers, body, options.retry)
                if answer.accepted:
                    tally.accepted += count
                elif answer.status is not None:
                    tally.refused += count
                    tally.reasons[answer.detail] += count
                else:
                    tally.unanswered += count
                    tally.reasons[f"no answer from {url}: {answer.detail}"] += count
                    tasks.cancel_scope.cancel()
                advance()

        for _ in range(options.in_flight):
            tasks.start_soon(sender)


class _Pace:
    """Gives each event its time, so that no more than `rate` go out in a second."""

    def __init__(self, rate: float | None) -> None:
        self._gap_s = 1 / rate if rate else 0.0
        self._next = 0.0

    async def turn(self, count: int) -> None:
        if self._gap_s:
            now = anyio.current_time()
            mine = max(self._next, now)
            self._next = mine + self._gap_s * count
            await anyio.sleep(mine - now)


def _groups(texts: Iterator[bytes], size: int) -> Iterator[list[bytes]]:
    while group := list(islice(texts, size)):
        yield group


def _progress(tally: Tally, *, shown: bool) -> AbstractContextManager[Callable[[], None]]:
    if not shown or not sys.stderr.isatty():
        return nullcontext(lambda: None)
    return _Bar(tally)


class _Bar:
    """A progress line on a terminal: how many, how fast."""

    def __init__(self, tally: Tally) -> None:
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._tally = tally
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=common.console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task("sending", total=None)

    def __enter__(self) -> Callable[[], None]:
        self._bar.start()
        return self._advance

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def _advance(self) -> None:
        task = self._bar.tasks[0]
        rate = self._tally.sent / task.elapsed if task.elapsed else 0
        self._bar.update(self._task, description=f"{self._tally.sent:,} events, {rate:,.0f}/s")


def _report(tally: Tally, options: Options) -> None:
    if options.as_json:
        counts = {"accepted": tally.accepted, "refused": tally.refused, "unanswered": tally.unanswered}
        common.print_json({**counts, "reasons": dict(tally.reasons.most_common())})
        return
    unanswered = f", {tally.unanswered} without an answer" if tally.unanswered else ""
    print(f"{tally.accepted} accepted, {tally.refused} refused{unanswered}")
    for reason, count in tally.reasons.most_common(10):
        print(f"  {count} x {reason}", file=sys.stderr)
