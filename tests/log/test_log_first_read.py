"""The logs of several brokers are opened at the same time, in threads of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.spec("SAFE-43")]

SCRIPT = """
import os, sys, threading
from pathlib import Path
from gateway_log import meta

folders = [Path(name) for name in sys.argv[1:]]
sys.setswitchinterval(1e-6)

def read_all():
    together, read = threading.Barrier(len(folders)), []
    def begin(folder):
        together.wait()
        read.append(meta.read(folder).shards["0"].next)
    threads = [threading.Thread(target=begin, args=(folder,)) for folder in folders]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    return 0 if read == [5] * len(folders) else 1

for _ in range(100):  # in each of them the metadata is read for the first time
    pid = os.fork()
    if not pid:
        os._exit(read_all())
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_metadata_is_read_by_several_threads_at_once(tmp_path: Path) -> None:
    for name in ("a", "b", "c", "d"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "meta.json").write_text('{"format": 1, "shards": {"0": {"next": 5}}}')
    command = [sys.executable, "-c", SCRIPT, *(str(tmp_path / name) for name in ("a", "b", "c", "d"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["0"] * 100
