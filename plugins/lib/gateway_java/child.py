"""A child process that ends with the process that started it, however that one ends."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

# The shell starts a background process that reads from our pipe, and then becomes the command. A line in the pipe means
# that the command has ended; the end of the pipe without a line means that we have died. (PR_SET_PDEATHSIG exists only
# on Linux, and fires when the thread that started the child ends.)
_SCRIPT = """\
exec 3<&0 </dev/null
{ read -r _ <&3 || kill -KILL $$; } &
exec 3<&-
exec "$@"
"""


class Child:
    """A command in its own session (Ctrl-C in the terminal does not reach it). Its output is appended to `log`, or goes
    where ours goes."""

    def __init__(self, command: Sequence[str], log: Path | None = None, env: Mapping[str, str] | None = None) -> None:
        with log.open("ab") if log else contextlib.nullcontext() as out:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT, "sh", *command],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT if log else None,
                start_new_session=True,
                env=env,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def ended(self) -> int | None:
        """Its exit code, or minus the signal; None while it runs."""
        code = self._process.poll()
        if code is not None:
            self._release()
        return code

    def terminate(self, timeout_s: float) -> int:
        """Sends SIGTERM, and SIGKILL after `timeout_s`. Returns the exit status."""
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        return self.kill()

    def kill(self) -> int:
        """Sends SIGKILL; returns the exit status once the process is gone."""
        self._process.kill()
        code = self._process.wait()
        self._release()
        return code

    def _release(self) -> None:
        # the watching process must not kill another process that reuses this process id
        pipe = self._process.stdin
        if pipe is not None and not pipe.closed:
            with contextlib.suppress(BrokenPipeError):
                pipe.write(b"\n")
                pipe.flush()
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
