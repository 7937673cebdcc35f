"""The command line in this process: a Python of its own costs a second, and only a test of the process needs one."""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

import pytest

from gateway_core.cli import main


def tidegate(
    *arguments: object, text: str = "", env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """`tidegate ARGUMENTS`, with `text` on standard input and `env` beside the settings of this process."""
    out, err, words = io.StringIO(), io.StringIO(), [str(one) for one in arguments]
    given = io.TextIOWrapper(io.BytesIO(text.encode()), "utf-8")
    with (
        _settings(env or {}),
        chdir(cwd or "."),
        patch.object(sys, "stdin", given),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as stopped,
    ):
        main(words)
    code = stopped.value.code
    assert isinstance(code, int)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


@contextmanager
def _settings(env: Mapping[str, str]) -> Iterator[None]:
    """Without settings of whoever runs the tests; logging is afterwards as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
    try:
        with patch.dict(os.environ, {**kept, **env}, clear=True):
            yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        logging.captureWarnings(False)
