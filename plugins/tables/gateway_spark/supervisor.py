"""Keeps a child process running: restarts it with increasing delays when it dies, and stops it gracefully."""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Callable, Sequence

import anyio
from anyio.abc import ByteReceiveStream, Process
from anyio.streams.buffered import BufferedByteReceiveStream

KILL_AFTER_S = 3.0
GOOD_RUN_S = 120.0  # a child that ran this long did not fail at its start
_LONGEST_LINE = 1 << 20
_NOISE = (
    *("WARNING: Using incubator modules", "Using Spark's default log4j profile", "SLF4J", "at ", "..."),
    *("Error: Could not create the Java Virtual Machine", "Error: A fatal exception has occurred"),
)
"""How lines of the JVM begin that do not say what is wrong: notes, frames of a stack, its last words."""


class Supervisor:
    """Runs `python -m MODULE` with a first line on its standard input. The lines of the child's standard output go to
    `on_line`, its standard error is kept for `last_words`; the end of its standard input tells it that we died."""

    def __init__(
        self,
        module: str,
        first_line: Callable[[], bytes],
        on_line: Callable[[bytes], None],
        on_exit: Callable[[int, float], None],
        delay_s: float,
        delay_max_s: float,
        stop_s: float,
    ) -> None:
        self._command: Sequence[str] = [sys.executable, "-P", "-m", module]
        self._first_line = first_line
        self._on_line = on_line
        self._on_exit = on_exit
        self._delay_s = delay_s
        self._delay_max_s = delay_max_s
        self._stop_s = stop_s
        self._wait_s = delay_s
        self._stopping = anyio.Event()
        self._ended = anyio.Event()
        self._process: Process | None = None
        self._words: deque[str] = deque(maxlen=20)

    @property
    def pid(self) -> int | None:
        """The child's process id, None while there is none."""
        return self._process.pid if self._process else None

    def last_words(self) -> str:
        """The last line that the child wrote to standard error, without noise, or ""."""
        return self._words[-1] if self._words else ""

    def good(self) -> None:
        """The child works: the next crash counts as the first."""
        self._wait_s = self._delay_s

    async def run(self) -> None:
        """Runs the child until `stop`."""
        try:
            while not self._stopping.is_set():
                began = anyio.current_time()
                try:
                    status = await self._once()
                except OSError as e:  # the machine is out of processes or files
                    self._words.append(f"can't start {self._command[-1]}: {e}")
                    status = -1
                if self._stopping.is_set():
                    break
                if anyio.current_time() - began > GOOD_RUN_S:
                    self.good()
                wait, self._wait_s = self._wait_s, min(self._wait_s * 2, self._delay_max_s)
                self._on_exit(status, wait)
                with anyio.move_on_after(wait):
                    await self._stopping.wait()
        finally:
            self._ended.set()

    async def stop(self) -> None:
        """Asks the child to finish; kills it if that takes too long."""
        self._stopping.set()
        if self._process is not None:
            with contextlib.suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                assert self._process.stdin is not None
                await self._process.stdin.send(b"stop\n")
        try:
            with anyio.move_on_after(self._stop_s):
                await self._ended.wait()
        finally:
            await self._end()

    async def _once(self) -> int:
        self._words.clear()
        # its own session: Ctrl-C in the terminal only reaches the gateway, which then stops the child gracefully
        process = await anyio.open_process(self._command, start_new_session=True)
        self._process = process
        try:
            with contextlib.suppress(OSError, anyio.BrokenResourceError):
                assert process.stdin is not None
                await process.stdin.send(self._first_line())
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._listen, process.stdout, self._on_line)
                tasks.start_soon(self._listen, process.stderr, self._keep)
                await process.wait()
                # its own children may hold the pipes open for a while
                tasks.cancel_scope.deadline = anyio.current_time() + 1
            return process.returncode or 0
        finally:
            with anyio.CancelScope(shield=True):
                await self._end()
                await process.aclose()
                self._process = None

    async def _end(self) -> None:
        """Ends the child: first by closing its input, so that it can end its own children, then by force."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        with anyio.CancelScope(shield=True):
            with contextlib.suppress(OSError, anyio.BrokenResourceError):
                assert process.stdin is not None
                await process.stdin.aclose()
            with anyio.move_on_after(KILL_AFTER_S):
                await process.wait()
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()

    async def _listen(self, stream: ByteReceiveStream | None, take: Callable[[bytes], None]) -> None:
        assert stream is not None
        lines = BufferedByteReceiveStream(stream)
        with contextlib.suppress(
            anyio.EndOfStream, anyio.IncompleteRead, anyio.ClosedResourceError, anyio.BrokenResourceError
        ):
            while True:
                try:
                    take(await lines.receive_until(b"\n", _LONGEST_LINE))
                except anyio.DelimiterNotFound:  # drops output without line ends, such as a progress bar
                    await lines.receive_exactly(len(lines.buffer))

    def _keep(self, line: bytes) -> None:
        text = line.decode(errors="replace").strip()
        if text and not text.startswith(_NOISE):
            self._words.append(text[:1000])
