"""Something that goes on beside a measurement or a picture."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def repeated(act: Callable[[], object], every_s: float) -> Iterator[None]:
    """Calls `act` every so many seconds in a thread, until the end of the block."""
    done = threading.Event()

    def go_on() -> None:
        while not done.wait(every_s):
            act()

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
