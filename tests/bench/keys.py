"""What the index of keys takes (`deduplicate` of a broker): `python -m tests.bench.keys [--keys N]`.

It puts N keys into an index alone, like the writer of a log, and prints the time for each key, the bytes on disk and in
memory, what finding takes, and how long a start takes after a crash.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import tempfile
import time
from hashlib import blake2b
from pathlib import Path

from gateway_log.key_index import KeyIndex
from gateway_log.key_runs import KEY, TAIL

GROUP = 64
DAY_MS = 86_400_000


def key_of(number: int) -> bytes:
    return blake2b(b"%d" % number, digest_size=KEY).digest()


def anonymous_bytes() -> int:
    """The memory of this process that is no file's."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the system does not tell")


def fill(index: KeyIndex, count: int) -> tuple[float, float]:
    """CPU seconds of what the index does for new keys: finding that they are new, and putting them; and of the whole
    process, with what sorts and writes runs beside."""
    spent, whole = 0.0, time.process_time()
    hashed = 0.0
    for first in range(1, count + 1, GROUP):
        began = time.thread_time()
        keys = [key_of(n) for n in range(first, min(first + GROUP, count + 1))]
        hashed += time.thread_time() - began
        began = time.thread_time()
        index.look(first, first)
        staged = {}
        for n, key in enumerate(keys, first):
            if index.find(key) is None:
                staged[key] = TAIL.pack(n - index.base.sequence, n - index.base.ms, 7)
        assert len(staged) == len(keys)
        index.put(staged, first + len(keys), first)
        spent += time.thread_time() - began
    return spent, time.process_time() - whole - hashed


def finding(index: KeyIndex, numbers: list[int], known: bool) -> float:
    """CPU seconds for each of these keys."""
    keys = [key_of(n) for n in numbers]
    began = time.thread_time()
    found = sum(index.find(key) is not None for key in keys)
    spent = time.thread_time() - began
    assert found == (len(keys) if known else 0)
    return spent / len(keys)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.keys")
    parser.add_argument("--keys", type=int, default=10_000_000)
    count = parser.parse_args().keys
    with tempfile.TemporaryDirectory() as folder:
        before = anonymous_bytes()
        index = KeyIndex(Path(folder), DAY_MS, count + 1)
        index.load({0: 1})
        index.begin(0, 1, 0)
        spent, whole = fill(index, count)
        gc.collect()
        memory = anonymous_bytes() - before
        print(
            f"{count} keys, {spent / count * 1e6:.2f} us of the writer's thread each, {whole / count * 1e6:.2f} us of"
        )
        print(f"  the process; {memory / 1e6:.1f} MB of memory")
        chance = random.Random(1)
        some = [chance.randrange(1, count + 1) for _ in range(5000)]
        print(
            f"finding: a new key {finding(index, list(range(count + 1, count + 50_001)), False) * 1e6:.2f} us,", end=""
        )
        print(f" an old one {finding(index, some, True) * 1e6:.1f} us")
        on_disk = sum(p.stat().st_size for p in Path(folder).rglob("*") if p.is_file())
        print(f"{on_disk / 1e6:.1f} MB on disk, {on_disk / count:.1f} bytes a key")
        began = time.perf_counter()
        again = KeyIndex(Path(folder), DAY_MS, count + 1)
        again.load({0: count + 1})
        print(f"a start after a crash: {time.perf_counter() - began:.2f} s, and the rows of the newest keys")
        again.close()
        os._exit(0)


if __name__ == "__main__":
    main()
