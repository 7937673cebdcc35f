"""Threads of the gateway, one at a time: each runs until it would block, and only when the loop lets it.

A thread is a greenlet of the loop's thread. The code under test needs no change: `replaced.py` gives it these classes
in place of those of `threading`, `queue` and `concurrent.futures`. A thread that gets work is a callback of the loop a
moment later, so it is frozen and dies with the loop, and every run has the same order.
"""

from __future__ import annotations

import asyncio
import fcntl
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty
from typing import Any

import greenlet  # type: ignore[import-untyped]

LOOKS_S = 0.0003
"""How often who waits for a lock looks whether it is free."""


class Killed(greenlet.GreenletExit):
    """The process is gone: ends a thread that waits."""


class Threads:
    """The threads of one process. `delay` says how long it takes until a thread that may run does."""

    current: Threads | None = None
    """Those of the process that is running now."""

    def __init__(self, loop: asyncio.AbstractEventLoop, delay: Callable[[], float]) -> None:
        self._loop = loop
        self._delay = delay
        self._hub = greenlet.getcurrent()
        self._alive: list[greenlet.greenlet] = []
        self._anyone = Pool(1 << 16)
        self._anyone.threads = self

    def start(self, run: Callable[[], Any]) -> None:
        """Starts a thread."""

        def whole() -> None:
            try:
                run()
            except greenlet.GreenletExit:
                return
            finally:
                self._alive.remove(thread)

        thread = greenlet.greenlet(whole, self._hub)
        self._alive.append(thread)
        self.wake(thread)

    def wake(self, thread: greenlet.greenlet) -> None:
        """Lets a thread that waits go on soon; not in a process that is gone."""
        if self._loop.is_closed():
            return
        delay = self._delay()
        if delay > 0:
            self._loop.call_later(delay, thread.switch)
        else:
            self._loop.call_soon(thread.switch)

    def block(self) -> None:
        """Waits in a thread until someone wakes it."""
        if greenlet.getcurrent() is self._hub:
            raise RuntimeError("the event loop itself waits for a thread: this would stop the gateway")
        self._hub.switch()

    @property
    def loop_runs(self) -> bool:
        """Whether it is the event loop itself that runs now, and no thread."""
        return greenlet.getcurrent() is self._hub

    def sleep(self, seconds: float) -> None:
        """Waits in a thread for so long. A kill ends it."""
        thread = greenlet.getcurrent()
        if thread is self._hub:
            raise RuntimeError("the event loop itself sleeps: this would stop the gateway")
        self._loop.call_later(seconds, thread.switch)
        self._hub.switch()

    def kill(self) -> None:
        """Ends all threads where they are."""
        for thread in list(self._alive):
            thread.throw(Killed)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> asyncio.Future[Any]:
        """See `AbstractEventLoop.run_in_executor`."""
        pool = executor if isinstance(executor, Pool) else self._anyone
        future: asyncio.Future[Any] = self._loop.create_future()

        def done(of: Future[Any]) -> None:
            if future.cancelled():
                return
            error = of.exception()
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(of.result())

        pool.submit(func, *args).add_done_callback(lambda of: self._loop.call_soon(done, of))
        return future


def _threads() -> Threads:
    assert Threads.current is not None
    return Threads.current


class Waiters:
    """Threads that wait for something."""

    def __init__(self) -> None:
        self._threads = _threads()
        self._waiting: deque[greenlet.greenlet] = deque()

    def wait(self) -> None:
        """Until `wake`."""
        self._waiting.append(greenlet.getcurrent())
        self._threads.block()

    def wake(self) -> None:
        """All of them."""
        while self._waiting:
            self._threads.wake(self._waiting.popleft())


class Thread:
    """`threading.Thread`."""

    def __init__(self, target: Callable[..., Any], name: str = "", daemon: bool = False, args: Any = ()) -> None:
        self._target, self._args = target, args
        self._ended = Waiters()
        self.alive = False

    def start(self) -> None:
        """Starts it."""
        self.alive = True
        _threads().start(self._whole)

    def _whole(self) -> None:
        try:
            self._target(*self._args)
        finally:
            self.alive = False
            self._ended.wake()

    def join(self, timeout: float | None = None) -> None:
        """Waits for its end."""
        while self.alive:
            self._ended.wait()


class SimpleQueue:
    """`queue.SimpleQueue`."""

    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._changed = Waiters()

    @classmethod
    def __class_getitem__(cls, item: Any) -> Any:
        return cls

    def put(self, item: Any) -> None:
        """Adds an item."""
        self._items.append(item)
        self._changed.wake()

    def get(self) -> Any:
        """Waits for an item and takes it."""
        while not self._items:
            self._changed.wait()
        return self._items.popleft()

    def get_nowait(self) -> Any:
        """Takes an item. Raises `Empty`."""
        if not self._items:
            raise Empty
        return self._items.popleft()


class Condition:
    """`threading.Condition`: its lock is always free, since a thread only stops where it waits."""

    def __init__(self) -> None:
        self._changed = Waiters()

    def __enter__(self) -> Condition:
        return self

    def __exit__(self, *error: object) -> None:
        return

    def notify(self, n: int = 1) -> None:
        """Wakes who waits."""
        self._changed.wake()

    notify_all = notify

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        """Waits until the predicate is true."""
        while not (result := predicate()):
            self._changed.wait()
        return result


class _Answer(Future[Any]):
    """What a thread of a pool returns. A thread that waits for it lets the others run; the loop itself may wait for it,
    too: then it stands still meanwhile."""

    def __init__(self, pool: Pool) -> None:
        super().__init__()
        self._pool = pool

    def result(self, timeout: float | None = None) -> Any:
        if not self.done() and _threads().loop_runs:
            self._pool.catch_up(self)
            return super().result(0)
        if not self.done():
            waiters = Waiters()
            self.add_done_callback(lambda _: waiters.wake())
            while not self.done():
                waiters.wait()
        return super().result(0)


def sleep(seconds: float) -> None:
    """`time.sleep`."""
    _threads().sleep(seconds)


def flock(descriptor: int, operation: int) -> None:
    """`fcntl.flock`: who waits for a lock lets the other threads and processes run."""
    while operation & fcntl.LOCK_EX and not operation & fcntl.LOCK_NB:
        try:
            fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            _threads().sleep(LOOKS_S)
        else:
            return
    fcntl.flock(descriptor, operation)


class Pool:
    """`concurrent.futures.ThreadPoolExecutor`."""

    def __init__(self, max_workers: int = 8, thread_name_prefix: str = "") -> None:
        self.threads = Threads.current
        self._most = max_workers
        self._running = 0
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._idle: Waiters | None = None

    def submit(self, func: Callable[..., Any], *args: Any) -> Future[Any]:
        """Runs `func(*args)` in a thread."""
        future = _Answer(self)
        self._waiting.append((future, lambda: func(*args)))
        if self._running < self._most:
            self._running += 1
            assert self.threads is not None
            self.threads.start(self._work)
        return future

    def _work(self) -> None:
        while self._waiting:
            self._next()
        self._running -= 1
        if self._idle is not None:
            self._idle.wake()

    def _next(self) -> None:
        future, run = self._waiting.popleft()
        try:
            result = run()
        except Exception as e:
            future.set_exception(e)
        else:
            future.set_result(result)

    def catch_up(self, future: Future[Any]) -> None:
        """Does what was asked for, in its order, up to this."""
        while self._waiting and not future.done():
            self._next()

    def shutdown(self, wait: bool = True) -> None:
        """Waits for what it runs."""
        while wait and self._running:
            self._idle = self._idle or Waiters()
            self._idle.wait()
