"""The Python of Spark's workers on this machine.

Spark puts its own archive of PySpark before everything else on the workers' path. Python keeps no bytecode of what is
in an archive, so each worker, and each stream, would compile PySpark again: 0.4 s of CPU time, two thirds of its start.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
import tempfile
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from gateway_java import java

_SCRIPT = """#!/bin/sh
# Runs Python without the archives of the PySpark that is installed anyway.
set -f
path=
IFS=:
for entry in $PYTHONPATH; do
  case $entry in {archives}/*.zip) ;; *) path=$path${{path:+:}}$entry ;; esac
done
PYTHONPATH=$path exec {python} "$@"
"""


def worker_python() -> str:
    """The path of a script in the cache that runs this Python with PySpark's installed files, or of this Python itself
    where no script can be written."""
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        return sys.executable
    archives = Path(found.origin).parent / "python/lib"
    text = _SCRIPT.format(archives=shlex.quote(str(archives)), python=shlex.quote(sys.executable))
    script = java.cache_dir() / "python" / hashlib.sha256(text.encode()).hexdigest()[:12]
    if not _is_ours(script, text):
        with suppress(OSError):
            script.parent.mkdir(parents=True, exist_ok=True)
            _write(script, text)
    return str(script) if archives.is_dir() and _is_ours(script, text) else sys.executable


def _is_ours(script: Path, text: str) -> bool:
    with suppress(OSError):
        return script.read_text() == text and os.access(script, os.X_OK)
    return False


def _write(script: Path, text: str) -> None:
    """In one step, since others may run it."""
    fd, new = tempfile.mkstemp(dir=script.parent)
    with open(fd, "w") as file:
        file.write(text)
    os.chmod(new, 0o755)
    os.replace(new, script)
