"""`tidegate send`."""

from __future__ import annotations

import ssl
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import httpx
import typer
from gateway_cloudevents import event_files, event_json
from gateway_terminal.tables import console

from gateway_core.contract.cli import common
from gateway_core.contract.cli.exit_codes import FAULT, OK

from . import events
from .post import BATCH, STRUCTURED, Answer, binary, check_url, client, given_headers, post
from .tls_files import Files, tls_of

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
    headers: Sequence[str] = ()
    tls: Files = (None, None, None)


@dataclass(slots=True)
class Tally:
    """Counts the results."""

    accepted: int = 0
    refused: int = 0
    unanswered: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    fault: common.CommandError | None = None
    crash: BaseException | None = None

    @property
    def sent(self) -> int:
        return self.accepted + self.refused + self.unanswered

    def add(self, url: str, answer: Answer, count: int) -> None:
        """Counts a request with `events` events."""
        if answer.accepted:
            self.accepted += count
        elif answer.status is not None:
            self.refused += count
            self.reasons[answer.detail] += count
        else:
            self.unanswered += count
            self.reasons[f"no response from {url}: {answer.detail}"] += count


def send_events(
    url: str,
    file: Path | None,
    single: Mapping[str, str | None],
    data: str | None,
    extensions: Sequence[str],
    options: Options,
) -> int:
    """Sends the events, shows progress, and reports. Returns the exit code."""
    try:
        check_url(url)
    except ValueError as e:
        raise typer.BadParameter(str(e), param_hint="URL") from e
    try:
        headers = given_headers(options.headers)
    except ValueError as e:
        raise typer.BadParameter(str(e), param_hint="--header") from e
    tls = tls_of(options.tls)
    if (file is None) == (single["type"] is None):
        raise typer.BadParameter("pass a file of events (- for standard input), or build one event with --type")
    if file is not None:
        texts = event_files.from_file(file)
    else:
        texts = iter([event_json.structured(events.from_flags(single, data, extensions))])
    tally = Tally()
    with _progress(tally, shown=file is not None and not options.as_json) as advance:
        _send_all(url, _requests(texts, options), options, headers, tls, tally, advance)
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
            yield *binary(events.event_of(text)), 1
    else:
        for text in texts:
            yield STRUCTURED, events.plain(text), 1


def _send_all(
    url: str,
    requests: Iterator[Request],
    options: Options,
    headers: Mapping[str, str],
    tls: ssl.SSLContext | None,
    tally: Tally,
    advance: Callable[[], None],
) -> None:
    """`in_flight` threads share one iterator. They stop at a request that gets no response even after its retries."""
    pace, taking, counting = _Pace(options.rate), threading.Lock(), threading.Lock()
    over = threading.Event()

    def take() -> Request | None:
        with taking:
            if over.is_set():
                return None
            try:
                return next(requests, None)
            except common.CommandError as e:
                tally.fault = e
                return None

    def sender(to: httpx.Client) -> None:
        try:
            while request := take():
                own, body, count = request
                over.wait(pace.turn(count))
                answer = post(to, url, own, body, options.retry, over.wait)
                with counting:
                    tally.add(url, answer, count)
                    advance()
                if answer.status is None:
                    over.set()
        except BaseException as e:
            tally.crash = tally.crash or e
            over.set()

    with client([url], options.in_flight, headers, tls) as to:
        # daemons: Ctrl-C must not wait for standard input, nor for an answer
        threads = [threading.Thread(target=sender, args=(to,), daemon=True) for _ in range(options.in_flight)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if tally.crash is not None:
        raise tally.crash


class _Pace:
    """Limits the threads to `rate` events per second."""

    def __init__(self, rate: float | None) -> None:
        self._gap_s = 1 / rate if rate else 0.0
        self._next = 0.0
        self._lock = threading.Lock()

    def turn(self, count: int) -> float:
        """Seconds to wait before these events may be sent."""
        if not self._gap_s:
            return 0.0
        with self._lock:
            now = time.monotonic()
            mine = max(self._next, now)
            self._next = mine + self._gap_s * count
        return mine - now


def _groups(texts: Iterator[bytes], size: int) -> Iterator[list[bytes]]:
    while group := list(islice(texts, size)):
        yield group


def _progress(tally: Tally, *, shown: bool) -> AbstractContextManager[Callable[[], None]]:
    if not shown or not sys.stderr.isatty():
        return nullcontext(lambda: None)
    return _Bar(tally)


class _Bar:
    """A progress line on a terminal: count and rate."""

    def __init__(self, tally: Tally) -> None:
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._tally = tally
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=console(stderr=True),
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
