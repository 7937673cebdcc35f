"""The command line, `tidegate`. Commands live in modules of their own that are imported when they run."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

PROGRAM = "tidegate"

OK, FAULT, USAGE, START, CRASH, INTERRUPTED = 0, 1, 2, 3, 70, 130
"""Exit codes: 0 done; 1 faults in a config, refused events, a far side that says no; 2 a wrong command line; 3 a
gateway that can't start; 70 a fault of Tidegate's own. A command ended by Ctrl-C has 130."""


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command line and exits. Mistakes of users end in one clear message, never in a traceback."""
    args = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _run(args)
    except KeyboardInterrupt:  # at any moment, also while modules are imported
        code = INTERRUPTED
    sys.exit(code)


def _run(args: list[str]) -> int:
    from ..errors import TidegateError
    from .app import app, prepare_completion

    prepare_completion()
    try:
        app(args=args, prog_name=PROGRAM)
    except SystemExit as e:
        return e.code if isinstance(e.code, int) else OK if e.code is None else FAULT
    except TidegateError as e:
        return _explain(e)
    except BrokenPipeError:
        # who reads our output has seen enough; Python would complain about it once more at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAULT
    except Exception as e:
        cause = _unwrapped(e)
        return _explain(cause) if isinstance(cause, TidegateError) else _crash(cause, args)
    return OK


def _unwrapped(error: Exception) -> Exception:
    """The error itself, where task groups wrapped it."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _explain(error: Exception) -> int:
    from ..errors import ConfigError, StartError

    if isinstance(error, ConfigError):
        from ..config.faults import render
        from .common import colours

        print(render(error.faults, colours(sys.stderr)), end="", file=sys.stderr)
        return FAULT
    print(f"{PROGRAM}: {error}", file=sys.stderr)
    return START if isinstance(error, StartError) else FAULT


def _crash(error: Exception, args: list[str]) -> int:
    """What no command foresaw: a file or folder that the system refuses, else a fault of our own."""
    if "debug" in args or "--log-level=debug" in args or os.environ.get("TIDEGATE_LOG_LEVEL", "").lower() == "debug":
        import traceback

        traceback.print_exception(error)
        return CRASH
    if isinstance(error, OSError) and error.filename:
        print(f"{PROGRAM}: {os.fsdecode(error.filename)}: {error.strerror}", file=sys.stderr)
        return FAULT
    print(
        f"{PROGRAM}: internal error: {type(error).__name__}: {error}\n"
        f"    this is a fault of {PROGRAM}'s own; `{PROGRAM} --log-level debug …` shows where",
        file=sys.stderr,
    )
    return CRASH
