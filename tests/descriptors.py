"""A process that can open nothing more."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager

LIMIT = 8
"""The first of a process's descriptors are never closed (its streams, and what pytest opened before any test)."""


@contextmanager
def without_descriptors() -> Iterator[None]:
    """This process can open nothing until the end of the block, whatever it closes meanwhile: all descriptors below
    the limit are taken, and a thread of another test that closes one above it frees nothing."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = [os.open(os.devnull, os.O_RDONLY)]
    while taken[-1] < LIMIT:
        taken.append(os.open(os.devnull, os.O_RDONLY))
    resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in taken:
            os.close(descriptor)
