"""A child process that does not outlive the process that started it, whatever ends that one."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

# The shell becomes the command. Before, it leaves a process behind that reads from our pipe: a line means that the
# command has ended, the pipe's end without a line that we have died. (PR_SET_PDEATHSIG exists on Linux only, and
# takes the end of the thread that started the child for ours.)
_SCRIPT = """\
exec 3<&0 </dev/null
{ read -r _ <&3 || kill -KILL $$; } &
exec 3<&-
exec "$@"
"""


class Child:
    """A command in a session of its own (Ctrl-C in the terminal does not reach it), its output appended to `log`; where
    there is none, it goes where ours goes."""

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
        """How it ended: its exit code, or minus the signal; None while it runs."""
        code = self._process.poll()
        if code is not None:
            self._release()
        return code

    def terminate(self, timeout_s: float) -> int:
        """SIGTERM, and SIGKILL where it takes longer than `timeout_s`. Returns how it ended."""
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        return self.kill()

    def kill(self) -> int:
        """SIGKILL; returns once it is gone."""
        self._process.kill()
        code = self._process.wait()
        self._release()
        return code

    def _release(self) -> None:
        # the watching process must not kill whatever gets the number of this child next
        pipe = self._process.stdin
        if pipe is not None and not pipe.closed:
            with contextlib.suppress(BrokenPipeError):
                pipe.write(b"\n")
                pipe.flush()
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
